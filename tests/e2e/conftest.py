"""Scripts are run as a user runs them: in a process of their own, with nothing but the installed package."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 240

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def run_script() -> Run:
    """Run a Python script; `fails` tells whether an error status is wanted. Host times are modelled: reproducible."""
    if importlib.util.find_spec("torch_neuronx") is None:
        pytest.skip("the start-up hook is not installed in this environment: make test")

    def run(script: Path, *arguments: object, fails: bool = False) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, script, *map(str, arguments)],
            env={**os.environ, "TRNSCOPE_HOST": "modelled"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
