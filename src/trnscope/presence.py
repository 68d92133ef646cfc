"""Whether this machine has the real thing, in which case trnscope steps aside."""

import os
from importlib.machinery import PathFinder
from pathlib import Path

DEVICE_DIRECTORY = Path("/dev")


def real_device() -> Path | None:
    """The first Neuron device node of this machine, or None."""
    nodes = (path for path in DEVICE_DIRECTORY.glob("neuron*") if path.name.removeprefix("neuron").isdigit())
    return min(nodes, default=None)


def real_package() -> str | None:
    """Where an installed `torch_neuronx` that is not trnscope's stand-in lies, or None. Imports nothing of it."""
    spec = PathFinder.find_spec("torch_neuronx")
    return None if spec is None else (spec.origin or "torch_neuronx")


def switched_off() -> bool:
    """Whether the user turned trnscope's device off for this process (`TRNSCOPE_OFF=1`)."""
    return os.environ.get("TRNSCOPE_OFF", "") == "1"
