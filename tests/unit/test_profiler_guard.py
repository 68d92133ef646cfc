"""Configuration strings that would end the process are refused; others reach the window."""

import subprocess
import sys

import pytest

from trnscope.runtime.profiler_guard import ProfilerConfigError, check

SCRIPT = """
import sys, torch
from torch._C._profiler import _ExperimentalConfig
config = _ExperimentalConfig(custom_profiler_config=sys.argv[1])
x = torch.ones(4, device="neuron")
try:
    with torch.profiler.profile(experimental_config=config) as prof:
        x + x
except ValueError as error:
    print("refused", error)
else:
    print("profiled", sum(event.name == "aten::add" for event in prof.events()))
with torch.profiler.profile() as prof:
    x + x
print("then", any(event.name == "neuron_launch" for event in prof.events()))
"""


def run(config: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, config], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("text", "character", "position"), [("a=b\n", "'='", 1), ("a\nb", r"'\n'", 1), ("#", "'#'", 0)]
)
def test_message_names_parameter_value_and_what_is_allowed(text: str, character: str, position: int) -> None:
    with pytest.raises(ProfilerConfigError) as caught:
        check(text)
    assert caught.value.what == f"custom_profiler_config is {text!r}, with {character} at position {position}"
    assert "one line of key:value pairs" in caught.value.hint


@pytest.mark.parametrize("text", ["", "host_memory:true", "modes:device,runtime;profile_output_dir:./a%3Db"])
def test_usual_strings_pass(text: str) -> None:
    check(text)


@pytest.mark.device
@pytest.mark.parametrize("text", ["a=b\n", "a:1\nb:2"])
def test_process_survives_a_raw_string(text: str) -> None:
    ended = run(text)
    assert ended.returncode == 0, ended.stderr
    refused, *_, then = ended.stdout.splitlines()
    assert refused.startswith("refused custom_profiler_config is ")
    assert then == "then True"


@pytest.mark.device
def test_process_takes_a_string_of_pairs() -> None:
    ended = run("correlate_device_time:false")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["profiled 1", "then True"]
