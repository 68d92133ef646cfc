"""The wheel carries what plain `pip install` must bring along."""

import os
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel of this checkout without the extension, built from a copy so that the checkout stays as it is."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", "dist", "."],
        cwd=source,
        env={**os.environ, "TRNSCOPE_BUILD_EXTENSION": "0"},
        check=True,
    )
    (path,) = (source / "dist").glob("trnscope-*.whl")
    return zipfile.ZipFile(path)


def test_the_start_up_hook_lands_in_site_packages(wheel: zipfile.ZipFile) -> None:
    assert wheel.read("trnscope_compat.pth") == (ROOT / "src" / "trnscope_compat.pth").read_bytes()


def test_data_files_are_in_the_package(wheel: zipfile.ZipFile) -> None:
    packed = set(wheel.namelist())
    for pattern in ("analysis/sql/*.sql", "chips/data/*.toml", "py.typed"):
        files = [path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "trnscope").glob(pattern)]
        assert files
        assert set(files) <= packed


def test_entry_points(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    parser = ConfigParser()
    parser.read_string(wheel.read(name).decode())
    assert {section: dict(parser[section]) for section in parser.sections()} == {
        "console_scripts": {"trnscope": "trnscope.commands.main:main"},
        "torch.backends": {"trnscope": "trnscope.device:_autoload"},
        "torch_dynamo_backends": {"neuron": "trnscope.compiler:neuron_backend"},
    }


def test_every_package_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src"
    modules = {path.relative_to(source).as_posix() for path in source.rglob("*.py")}
    assert modules <= set(wheel.namelist())
