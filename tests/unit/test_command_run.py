"""`trnscope run`: arguments, settings, and scripts that are profiled, profile themselves or fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import trnscope
from trnscope import presence
from trnscope.commands.main import main
from trnscope.schema import CaptureManifest
from trnscope.store.capture import find_captures

SOURCE = Path(trnscope.__file__).parents[1]
SIX_OPS = """
import torch
x = torch.ones(8, 16, device="neuron")
w = torch.ones(16, device="neuron")
y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w
torch.neuron.synchronize()
"""


def trnscope_run(cwd: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        [sys.executable, "-m", "trnscope", "run", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    # Kineto's own log of starts and stops, which torch prints for any profile
    lines = [line for line in result.stderr.splitlines(keepends=True) if not line.startswith("USDT:")]
    result.stderr = "".join(lines)
    return result


def manifest(output: Path) -> CaptureManifest:
    (capture,) = find_captures(output)
    return capture.manifest


def test_a_missing_script_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "no.py"]) == 2
    assert capsys.readouterr().err == ("trnscope run: there is no script no.py.\n  Name a file, or a module with -m.\n")


def test_settings_that_do_not_fit_are_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('ran')\n")
    result = trnscope_run(tmp_path, "--chip", "trn1", "--instance", "trn2.3xlarge", "script.py")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("trnscope run: TRNSCOPE_CHIP=trn1 does not fit TRNSCOPE_INSTANCE=trn2.3xlarge")


def test_beside_a_real_device_the_script_runs_unprofiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "neuron0").touch()
    script = tmp_path / "script.py"
    script.write_text("import sys; sys.exit(5)\n")
    monkeypatch.setattr(presence, "DEVICE_DIRECTORY", tmp_path)
    for name in ("argv", "path"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    assert main(["run", str(script)]) == 5
    assert capsys.readouterr().err == (
        f"trnscope: found {tmp_path}/neuron0: the script runs on the real backend, unprofiled.\n"
    )


@pytest.mark.device
def test_a_script_is_profiled_as_a_whole(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.argv[1:])\n" + SIX_OPS + "import os; os.chdir('/')\n")
    result = trnscope_run(tmp_path, "--lnc", "1", "--host-mode", "modelled", "--out", "here", "script.py", "--lnc", "2")
    assert (result.returncode, result.stdout) == (0, "['--lnc', '2']\n")
    (capture,) = find_captures(tmp_path / "here")
    assert result.stderr == (f"trnscope: capture in {capture.directory}\n  trnscope summary {capture.directory}\n")
    made = capture.manifest
    assert (made.chip, made.instance, made.lnc) == ("trn2", "trn2.3xlarge", 1)
    assert (made.window["host_mode"], made.command[-2:]) == ("modelled", ["--lnc", "2"])

    shown = subprocess.run(
        [sys.executable, "-m", "trnscope", "summary", "--json", str(capture.directory)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    (summary,) = json.loads(shown.stdout)["captures"]
    executions = {row["op"]: row["executions"] for row in summary["ops"]}
    assert executions == {
        "aten::fill_.Scalar": 2,
        "aten::mul.Tensor": 3,
        "aten::mean.dim": 1,
        "aten::add.Tensor": 1,
        "aten::rsqrt": 1,
    }


@pytest.mark.device
def test_the_traceback_and_the_exit_code_of_a_failing_script_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SIX_OPS + "raise ValueError('mine')\n")
    result = trnscope_run(tmp_path, "script.py")
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[:2] == ["Traceback (most recent call last):", f'  File "{tmp_path}/script.py", line 7, in <module>']
    assert "ValueError: mine" in lines
    assert manifest(tmp_path / "output").counts["Execution"] == 8


@pytest.mark.device
def test_a_script_that_profiles_itself_keeps_its_own_profile_only(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        SIX_OPS
        + """
from torch.profiler import ProfilerActivity, profile
from torch_neuronx.profiling import NeuronConfig, NeuronProfiler
config = NeuronConfig(profile_output_dir="output")
activities = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
with profile(activities=activities, experimental_config=config, on_trace_ready=NeuronProfiler(config).export_trace):
    y = x * w
    torch.neuron.synchronize()
"""
    )
    result = trnscope_run(tmp_path, "script.py")
    assert result.returncode == 0, result.stderr
    (capture,) = find_captures(tmp_path / "output")
    assert capture.manifest.counts["Execution"] == 1
    assert result.stderr.splitlines()[0] == "trnscope: the script profiles itself, so its own profiler was used."
    assert str(capture.directory) in result.stderr


@pytest.mark.device
def test_shapes_only(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SIX_OPS)
    result = trnscope_run(tmp_path, "--shapes-only", "script.py")
    assert result.returncode == 0, result.stderr
    assert manifest(tmp_path / "output").window["compute_mode"] == "shapes"


@pytest.mark.device
def test_switched_off_runs_without_the_device(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import torch; print(hasattr(torch, 'neuron'))\n")
    result = trnscope_run(tmp_path, "script.py", TRNSCOPE_OFF="1")
    assert (result.returncode, result.stdout) == (0, "False\n")
    assert result.stderr == "trnscope: TRNSCOPE_OFF=1: the script runs without the modelled device.\n"
    assert not (tmp_path / "output").exists()
