"""Skips what this environment cannot run, with a reason."""

import importlib.util
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
