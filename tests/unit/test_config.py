"""NeuronConfig as torch sees it."""

import copy
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from trnscope.profiling.config import NeuronConfig  # noqa: E402
from trnscope.profiling.settings import ConfigError, ProfileMode, Settings  # noqa: E402

HOSTILE = ["a=b", "line\nbreak", "cut#here", "semi;colon:pair", "tab\tand space", "%41", "é\U0001f600", "\r\0\x1b"[0:1]]


def test_it_is_what_torch_takes() -> None:
    config = NeuronConfig(modes=[ProfileMode.RUNTIME], profile_output_dir="x", capture_enabled_for_nc="0,2-3")
    assert isinstance(config, torch._C._profiler._ExperimentalConfig)
    assert (config.modes, config.max_events_per_nc) == ([ProfileMode.RUNTIME], 1_000_000)
    assert (config.capture_enabled_for_nc, config.profile_output_dir) == ([0, 2, 3], "x")
    assert (config.neff_cache_dir, config.precache_node_info, config.correlate_device_time) == (None, True, False)
    assert repr(config).startswith("NeuronConfig(modes=['RUNTIME'], max_events_per_nc=1000000")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda config: pickle.loads(pickle.dumps(config))])
def test_copies_are_whole(copied: object) -> None:
    config = NeuronConfig(profile_output_dir="a;b=c\n#d", max_events_per_nc=5, correlate_device_time=True)
    config.trace_only = True
    other = copied(config)
    assert type(other) is NeuronConfig
    assert other == config
    assert hash(other) == hash(config)
    assert other.trace_only is True
    assert other.custom_profiler_config == config.custom_profiler_config
    assert NeuronConfig() != config


def test_errors_come_from_the_constructor() -> None:
    with pytest.raises(ConfigError, match="max_events_per_nc=0"):
        NeuronConfig(max_events_per_nc=0)
    with pytest.raises(ConfigError, match="profile_output_dir="):
        NeuronConfig(profile_output_dir="\udcff")


def test_no_value_can_end_the_process() -> None:
    # Some characters end the whole process inside of torch, so this runs in one of its own.
    script = f"""
import torch
from torch.profiler import ProfilerActivity, profile
from trnscope.profiling.config import NeuronConfig
for value in {HOSTILE!r}:
    with profile(activities=[ProfilerActivity.CPU], experimental_config=NeuronConfig(profile_output_dir=value)) as prof:
        torch.ones(2) + 1
    assert any(event.name == "aten::add" for event in prof.events())
print("alive")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "alive\n"


@pytest.mark.parametrize("value", HOSTILE)
def test_what_torch_keeps_is_read_back(value: str) -> None:
    config = NeuronConfig(profile_output_dir=value)
    assert Settings.from_string(config.custom_profiler_config) == (config.settings, [])
