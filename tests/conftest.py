"""Skips what this environment cannot run, with a reason; snapshots of printed text."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

import trnscope


def missing_for_device() -> str | None:
    """Why tests that need the device cannot run here, or None."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    if not any((Path(trnscope.__file__).parent / "device").glob("_C*.so")):
        return "the extension is not built: make test"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = missing_for_device()
    for item in items:
        if reason is not None and item.get_closest_marker("device"):
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("slow") and not item.config.option.markexpr:
            item.add_marker(pytest.mark.skip(reason="slow: run by a target of its own, or with -m slow"))


SNAPSHOTS = Path(__file__).parent / "snapshots"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-snapshots", action="store_true", help="write what is printed now as what is expected")


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with `tests/snapshots/<name>`."""

    def compare(text: str, name: str) -> None:
        path = SNAPSHOTS / name
        if request.config.getoption("--update-snapshots"):
            path.write_text(text)
        assert text == path.read_text(), f"{path} differs; if this is meant: pytest --update-snapshots"

    return compare
