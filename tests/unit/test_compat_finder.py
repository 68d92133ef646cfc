"""`import torch_neuronx` where the real package is absent, present, or a real device is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trnscope import presence
from trnscope.compat.finder import CompatFinder

SOURCE = Path(presence.__file__).parents[1]
HOOK = SOURCE / "trnscope_compat.pth"


def run(code: str, *path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new interpreter that has the start-up hook, as site-packages would give it."""
    hook = f"exec({HOOK.read_text()!r})\n"
    return subprocess.run(
        [sys.executable, "-c", hook + code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, SOURCE))), **env},
        capture_output=True,
        text=True,
        check=False,
    )


FIND = "import importlib.util as u; s = u.find_spec('torch_neuronx'); print(s and s.origin)"


def test_the_stand_in_is_found_without_importing_trnscope_at_start() -> None:
    result = run("import sys; print('trnscope' in sys.modules)\n" + FIND)
    assert result.stderr == ""
    assert result.stdout.splitlines() == ["False", str(SOURCE / "trnscope/compat/torch_neuronx/__init__.py")]


def test_the_real_package_wins(tmp_path: Path) -> None:
    package = tmp_path / "torch_neuronx"
    package.mkdir()
    (package / "__init__.py").write_text("NAME = 'real'\n")
    result = run("import torch_neuronx; print(torch_neuronx.NAME)", tmp_path)
    assert (result.stdout, result.stderr) == ("real\n", "")


def test_switched_off_finds_nothing() -> None:
    assert run(FIND, TRNSCOPE_OFF="1").stdout == "None\n"


def test_a_real_device_is_left_to_the_real_package_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "neuron0").touch()
    (tmp_path / "neuron_other").touch()
    monkeypatch.setattr(presence, "DEVICE_DIRECTORY", tmp_path)
    monkeypatch.setattr(CompatFinder, "_refused", False)
    assert CompatFinder.find_spec("torch_neuronx") is None
    assert CompatFinder.find_spec("torch_neuronx") is None
    assert capsys.readouterr().err == (
        f"trnscope: {tmp_path}/neuron0 is a real Neuron device, so trnscope does not stand in for torch_neuronx. "
        "Install the real package to use it.\n"
    )


def test_other_names_are_not_its_business() -> None:
    assert CompatFinder.find_spec("torch_neuron") is None
    assert CompatFinder.find_spec("torch_neuronx.profiling") is None


def test_the_first_device_node_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "DEVICE_DIRECTORY", tmp_path)
    assert presence.real_device() is None
    for name in ("neuron1", "neuron0", "neurons"):
        (tmp_path / name).touch()
    assert presence.real_device() == tmp_path / "neuron0"
