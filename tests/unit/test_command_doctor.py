"""`trnscope doctor`: what each check says when something is wrong, and what mends it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from trnscope import config, presence
from trnscope.commands import doctor
from trnscope.commands.main import main
from trnscope.reporters.doctor import Check

WORKING = {"torch": "2.13.0+cpu", "error": None, "registered": True, "devices": 4, "result": [2.0, 2.0, 2.0]}


def found(check: Check) -> tuple[str, str]:
    return check["status"], check["found"]


def test_an_old_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.python_version()["status"] == "ok"
    monkeypatch.setattr(sys, "version_info", (3, 10, 2))
    check = doctor.python_version()
    assert found(check) == ("fail", f"3.10.2 ({sys.executable}); 3.11 or newer is needed")
    assert check["fix"] == "sudo apt-get install python3.11"


def test_torch_missing_wrong_or_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Distribution:
        version = "2.12.1+cpu"

    monkeypatch.setattr(doctor, "distribution", lambda name: Distribution)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    check = doctor.torch_version(None)
    assert found(check) == ("warn", "not installed: captures can be read, scripts cannot be run")
    assert check["fix"] == f"{sys.executable} -m pip install torch==2.13.0"

    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: "there")
    assert found(doctor.torch_version(WORKING)) == ("fail", "2.12.1+cpu; this trnscope is built for 2.13.0")
    monkeypatch.setattr(Distribution, "version", "2.13.0+cpu")
    assert found(doctor.torch_version(WORKING)) == ("ok", "2.13.0+cpu")
    broken = WORKING | {"torch": None, "error": "OSError: libgomp"}
    assert found(doctor.torch_version(broken)) == ("fail", "2.13.0+cpu cannot be imported: OSError: libgomp")


def test_a_wrong_setting_names_the_variable_to_unset() -> None:
    assert found(doctor.configuration({})) == (
        "ok",
        "trn2 modelled, trn2.3xlarge, LNC 2: 4 logical NeuronCores of 24 GiB; host time measured, values computed",
    )
    check = doctor.configuration({"TRNSCOPE_CHIP": "trn9"})
    assert check["status"] == "fail"
    assert "trn9" in check["found"]
    assert check["fix"] == "unset TRNSCOPE_CHIP"


def test_autoload(monkeypatch: pytest.MonkeyPatch) -> None:
    off = doctor.autoload({"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert (off["status"], off["fix"]) == ("fail", "unset TORCH_DEVICE_BACKEND_AUTOLOAD")
    assert doctor.autoload({"TRNSCOPE_OFF": "1"})["status"] == "warn"
    monkeypatch.setattr(doctor, "entry_points", lambda group: [])
    assert doctor.autoload({})["status"] == "fail"
    assert doctor.compile_backend()["status"] == "fail"


@pytest.mark.parametrize(
    ("probe", "complaint", "environment", "expected"),
    [
        (WORKING, "", {}, ("ok", "4 logical NeuronCores; (1, 1, 1) * 2 is right")),
        (None, "signal 11", {}, ("fail", "importing torch with the device does not survive: signal 11")),
        ({"registered": False}, "trnscope: no _C\nmore", {}, ("fail", "trnscope: no _C")),
        ({"registered": False}, "", {"TRNSCOPE_OFF": "1"}, ("warn", "not registered")),
        ({"result": [2.0, 2.0, 3.0]}, "", {}, ("fail", "(1, 1, 1) * 2 gave [2.0, 2.0, 3.0]")),
        ({"result": None, "error": "E: x"}, "", {}, ("fail", "(1, 1, 1) * 2 gave E: x")),
        ({"result": [0.0, 0.0, 0.0]}, "", {"TRNSCOPE_COMPUTE": "shapes"}, ("ok", "4 logical NeuronCores; no values")),
    ],
)
def test_device(probe: dict[str, Any] | None, complaint: str, environment: dict[str, str], expected: Any) -> None:
    assert found(doctor.device(None if probe is None else WORKING | probe, complaint, environment)) == expected


def test_the_probe_that_dies_or_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(code: str) -> tuple[Any, str]:
        return doctor.run_probe((sys.executable, "-c", code))

    assert run("import os; os.abort()") == (None, "the process ended with signal 6")
    assert run("import sys; sys.exit('a line')") == (None, "the process ended with exit code 1: a line")
    assert run("print('noise'); print('{\"a\": 1}')") == ({"a": 1}, "")
    monkeypatch.setattr(doctor, "PROBE_TIMEOUT_S", 0.05)
    assert run("import time; time.sleep(10)") == (None, "no answer within 0.05 s")


def test_the_real_thing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(doctor.real_backend()) == ("ok", "none: device time is modelled")
    monkeypatch.setattr(presence, "real_package", lambda: "/site/torch_neuronx/__init__.py")
    assert doctor.real_backend()["status"] == "warn"
    assert found(doctor.compat()) == ("ok", "the real package")
    (tmp_path / "neuron0").touch()
    monkeypatch.setattr(presence, "DEVICE_DIRECTORY", tmp_path)
    assert doctor.real_backend()["found"].startswith(f"{tmp_path}/neuron0 is there")


def test_a_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(doctor.directory("output", tmp_path / "a" / "b", "--out")) == ("ok", str(tmp_path / "a" / "b"))
    check = doctor.directory("output", Path("/proc/a"), "--out")
    assert check["status"] == "fail"
    assert check["found"].startswith("/proc cannot be written (")
    assert check["found"].endswith("; --out names another")


def test_the_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    checks = [doctor.ok("python", "3"), doctor.warn("torch", "[no]", "pip"), doctor.fail("chip", "bad", "unset X")]
    monkeypatch.setattr(doctor, "diagnose", lambda environment: iter(checks))
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out == (
        "ok   python  3\nwarn torch   [no]\n             mend: pip\nfail chip    bad\n             mend: unset X\n"
        "1 to mend, the first one first\n"
    )
    assert main(["doctor", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["checks"], answer["is_simulation"]) == (False, checks, True)
    del checks[2]
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("everything needed works\n")


@pytest.mark.device
def test_this_environment_is_sound(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [check for check in checks if check["status"] == "fail"] == []
    assert code == 0
    names = [check["name"] for check in checks]
    assert names[:4] == ["python", "real device", "torch", "chip"]
    assert names[4:8] == ["extension", "autoload", "device", "torch.compile"]


def test_the_settings_of_the_device_are_those_of_config() -> None:
    settings = config.resolve({"TRNSCOPE_CHIP": "trn1", "TRNSCOPE_COMPUTE": "shapes"})
    check = doctor.configuration({"TRNSCOPE_CHIP": "trn1", "TRNSCOPE_COMPUTE": "shapes"})
    assert f"{settings.instance}, LNC 1: {settings.device_count} logical" in check["found"]
    assert check["found"].endswith("shapes only, no values computed")
