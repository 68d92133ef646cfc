"""Stand-in for the package `torch_neuronx`: names only, the behaviour lives in `device`, `profiling` and `compiler`.

It is loaded under the name torch_neuronx where the real package is absent (see `trnscope.compat.finder`).
"""

import importlib
from typing import Any, Final

from trnscope import __version__
from trnscope.compiler import get_dynamo_metrics, reset_dynamo_metrics
from trnscope.device import neuron
from trnscope.device.autoload import _autoload, is_registered
from trnscope.profiling import NeuronProfiler

__all__ = [
    "NeuronProfiler",
    "__version__",
    "_autoload",
    "get_dynamo_metrics",
    "neuron",
    "reset_dynamo_metrics",
]

OF_NEURON: Final = {
    name: name
    for name in (
        "Event",
        "Stream",
        "StreamContext",
        "clear_op_tracking",
        "current_device",
        "current_stream",
        "default_stream",
        "device",
        "device_count",
        "empty_cache",
        "get_device_properties",
        "get_fallback_ops",
        "max_memory_allocated",
        "max_memory_reserved",
        "memory_allocated",
        "memory_reserved",
        "memory_stats",
        "memory_summary",
        "reset_accumulated_memory_stats",
        "reset_peak_memory_stats",
        "set_device",
        "set_stream",
        "stream",
        "synchronize",
    )
} | {"_lazy_init": "init", "is_neuron_runtime_initialized": "is_initialized"}
"""Name here -> name in `torch.neuron`."""

SUBMODULES: Final = ("memory", "neuron_dynamo_backend", "profiling", "streams", "utils")


def __getattr__(name: str) -> Any:
    if name in OF_NEURON:
        return getattr(neuron, OF_NEURON[name])
    if name in SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    # `hasattr` in guards of user code must still answer no, hence AttributeError
    raise AttributeError(f"trnscope's stand-in for torch_neuronx has no {name!r}")


def __dir__() -> list[str]:
    return sorted((*globals(), *OF_NEURON, *SUBMODULES))


# torch has done this at its own import, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0
_autoload()
if not is_registered():
    raise ImportError("the neuron device is not available: run `trnscope doctor`", name=__name__)
