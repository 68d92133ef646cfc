"""Checks this environment: Python, torch, the extension, the modelled chip, compatibility, directories.

Every line is ok, warn (something is off, or only the viewer works) or fail, and says the one command that mends it.
The exit code is 1 when something failed.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any, Final

import trnscope
from trnscope import TrnscopeError, __version__, config, presence
from trnscope.compat.finder import NAME as COMPAT_NAME
from trnscope.reporters import doctor as reporter
from trnscope.reporters.doctor import Check
from trnscope.schema import envelope

TORCH_VERSION: Final = "2.13.0"
"""The extension is built for exactly this release; any local build of it will do."""

MINIMUM_PYTHON: Final = (3, 11)
PROBE_TIMEOUT_S: Final = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(options: argparse.Namespace) -> int:
    """Check everything and print."""
    checks = list(diagnose(os.environ))
    failed = any(check["status"] == "fail" for check in checks)
    answer: reporter.DoctorAnswer = {
        **envelope(__version__, is_simulation=not (presence.real_device() or presence.real_package()), caveats=[]),
        "ok": not failed,
        "checks": checks,
    }
    reporter.report(answer, as_json=options.json)
    return 1 if failed else 0


def diagnose(environment: Mapping[str, str]) -> Iterator[Check]:
    """All checks, in the order in which a problem should be mended."""
    yield python_version()
    yield real_backend()
    probe, complaint = run_probe()
    torch = torch_version(probe)
    yield torch
    yield configuration(environment)
    if torch["status"] == "ok":
        yield extension()
        yield autoload(environment)
        yield device(probe, complaint, environment)
        yield compile_backend()
    yield compat()
    yield directory("output", Path("output"), "--out of trnscope run")
    cache = environment.get("TRNSCOPE_CACHE") or environment.get("XDG_CACHE_HOME") or "~/.cache"
    yield directory("cache", Path(cache).expanduser(), "TRNSCOPE_CACHE")


def ok(name: str, found: str) -> Check:
    """Nothing to mend."""
    return {"name": name, "status": "ok", "found": found, "fix": None}


def warn(name: str, found: str, fix: str | None = None) -> Check:
    """Works, but something is missing or stands aside."""
    return {"name": name, "status": "warn", "found": found, "fix": fix}


def fail(name: str, found: str, fix: str) -> Check:
    """Does not work until it is mended."""
    return {"name": name, "status": "fail", "found": found, "fix": fix}


def reinstall() -> str:
    """The command that installs trnscope and builds its extension beside the torch of this interpreter."""
    checkout = Path(trnscope.__file__).parents[2]
    target = f"-e {checkout}" if (checkout / "setup.py").exists() else "--force-reinstall --no-deps trnscope"
    return f"{sys.executable} -m pip install --no-build-isolation {target}"


def python_version() -> Check:
    """The interpreter."""
    found = ".".join(map(str, sys.version_info[:3])) + f" ({sys.executable})"
    if sys.version_info[:2] >= MINIMUM_PYTHON:
        return ok("python", found)
    needed = ".".join(map(str, MINIMUM_PYTHON))
    return fail("python", f"{found}; {needed} or newer is needed", f"sudo apt-get install python{needed}")


def real_backend() -> Check:
    """A real device or its package: trnscope stands aside then."""
    if (node := presence.real_device()) is not None:
        return warn("real device", f"{node} is there: trnscope registers no device of its own, the real one is used")
    if (package := presence.real_package()) is not None:
        return warn(
            "real device",
            f"torch_neuronx is installed ({package}): trnscope steps aside",
            f"{sys.executable} -m pip uninstall torch-neuronx",
        )
    return ok("real device", "none: device time is modelled")


def run_probe(command: tuple[str, ...] = (sys.executable, "-m", "trnscope.device.probe")) -> tuple[Any, str]:
    """What a new process finds (see `trnscope.device.probe`), or None when it died, and what it said on stderr."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return None, f"no answer within {PROBE_TIMEOUT_S} s"
    said = result.stderr.strip()
    if result.returncode != 0:
        ending = f"signal {-result.returncode}" if result.returncode < 0 else f"exit code {result.returncode}"
        return None, f"the process ended with {ending}" + (f": {said.splitlines()[-1]}" if said else "")
    return json.loads(result.stdout.splitlines()[-1]), said


def torch_version(probe: Mapping[str, Any] | None) -> Check:
    """The right release of torch, without importing it here."""
    install = f"{sys.executable} -m pip install torch=={TORCH_VERSION}"
    if importlib.util.find_spec("torch") is None:
        return warn("torch", "not installed: captures can be read, scripts cannot be run", install)
    try:
        version = distribution("torch").version
    except PackageNotFoundError:
        version = (probe or {}).get("torch") or "of unknown version"
    if version.partition("+")[0] != TORCH_VERSION:
        return fail("torch", f"{version}; this trnscope is built for {TORCH_VERSION}", install)
    if probe is not None and probe["torch"] is None:
        return fail("torch", f"{version} cannot be imported: {probe['error']}", f"{install} --force-reinstall")
    return ok("torch", version)


def configuration(environment: Mapping[str, str]) -> Check:
    """Chip, instance and logical cores."""
    try:
        settings = config.resolve(environment)
    except TrnscopeError as error:
        variable = error.what.partition("=")[0]
        return fail("chip", f"{error.what} {error.hint}".strip(), f"unset {variable}")
    return ok(
        "chip",
        f"{settings.chip} modelled, {settings.instance}, LNC {settings.lnc}: {settings.device_count} logical "
        f"NeuronCores of {settings.hbm_bytes / (1 << 30):g} GiB; host time {settings.host_mode}, "
        + ("values computed" if settings.compute == "values" else "shapes only, no values computed"),
    )


def extension() -> Check:
    """The compiled part. Whether it loads is seen by `device`."""
    files = sorted((Path(trnscope.__file__).parent / "device").glob("_C*.so"))
    if not files:
        return fail("extension", "not built", reinstall())
    return ok("extension", str(files[-1]))


def autoload(environment: Mapping[str, str]) -> Check:
    """Whether `import torch` finds the device."""
    name = "autoload"
    if environment.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        return fail(name, "switched off by TORCH_DEVICE_BACKEND_AUTOLOAD=0", "unset TORCH_DEVICE_BACKEND_AUTOLOAD")
    if switched_off(environment):
        return warn(name, "switched off by TRNSCOPE_OFF=1", "unset TRNSCOPE_OFF")
    if not any(entry.value == "trnscope.device:_autoload" for entry in entry_points(group="torch.backends")):
        return fail(name, "torch does not know trnscope: its entry points are not installed", reinstall())
    return ok(name, "import torch registers the device neuron")


def switched_off(environment: Mapping[str, str]) -> bool:
    """Whether TRNSCOPE_OFF is set to anything but off."""
    return environment.get("TRNSCOPE_OFF", "").strip().lower() in ("1", "true")


def device(probe: Mapping[str, Any] | None, complaint: str, environment: Mapping[str, str]) -> Check:
    """Computes three numbers on the device."""
    name = "device"
    if probe is None:
        return fail(name, f"importing torch with the device does not survive: {complaint}", reinstall())
    if not probe["registered"]:
        found = complaint.splitlines()[0] if complaint else "not registered"
        if switched_off(environment) or presence.real_device() or presence.real_package():
            return warn(name, found)
        return fail(name, found, reinstall())
    shapes_only = environment.get("TRNSCOPE_COMPUTE") == "shapes"
    if probe["error"] is not None or (probe["result"] != [2.0, 2.0, 2.0] and not shapes_only):
        return fail(name, f"(1, 1, 1) * 2 gave {probe['error'] or probe['result']}", reinstall())
    return ok(
        name, f"{probe['devices']} logical NeuronCores; " + ("no values" if shapes_only else "(1, 1, 1) * 2 is right")
    )


def compile_backend() -> Check:
    """`torch.compile(backend="neuron")`."""
    name = "torch.compile"
    entries = [entry for entry in entry_points(group="torch_dynamo_backends") if entry.name == "neuron"]
    if not any(entry.value.startswith("trnscope.") for entry in entries):
        return fail(name, 'backend="neuron" is not registered', reinstall())
    return ok(name, 'backend="neuron" is registered')


def compat() -> Check:
    """`import torch_neuronx` without the real package."""
    name = f"import {COMPAT_NAME}"
    if presence.real_package() is not None:
        return ok(name, "the real package")
    if presence.real_device() is not None:
        return warn(name, "left to the real package, which is not installed")
    if any(getattr(finder, "__name__", None) == "TrnscopeCompat" for finder in sys.meta_path):
        return ok(name, "trnscope stands in, in every Python of this environment")
    return warn(name, "works under `trnscope run` only: trnscope_compat.pth is not in site-packages", reinstall())


def directory(name: str, path: Path, setting: str) -> Check:
    """Whether files can be made in `path` or where it would be made."""
    existing = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return ok(name, str(path.absolute()))
    except OSError as error:
        reason = error.strerror or str(error)
        return fail(name, f"{existing} cannot be written ({reason}); {setting} names another", f"chmod u+w {existing}")
