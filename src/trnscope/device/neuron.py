"""The module `torch.neuron`: devices, streams, memory and random numbers of the modelled NeuronCores.

It has the names that the real backend's module has. Where an answer differs on purpose, its docstring says so.
"""

from types import TracebackType
from typing import Any

import torch

from trnscope.device import _C, memory
from trnscope.device.indices import Device, device_index
from trnscope.device.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from trnscope.device.properties import (
    DeviceProperties,
    get_device_name,
    get_device_properties,
)
from trnscope.device.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from trnscope.device.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    query,
    record_event,
    set_stream,
    stream,
    synchronize,
    wait_event,
    wait_stream,
)

__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "clear_op_tracking",
    "get_fallback_ops",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "query",
    "record_event",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "wait_event",
    "wait_stream",
]


def is_available() -> bool:
    """Whether there is a device. Never raises."""
    return bool(_C.device_count() > 0)


def is_initialized() -> bool:
    """Whether the device was used in this process."""
    return bool(_C.is_initialized()) and not _is_in_bad_fork()


def init() -> None:
    """Initialises the device; using it does so as well.

    Raises:
        RuntimeError: in a process that was forked after its parent had used the device.
    """
    _C.initialize()


def _is_in_bad_fork() -> bool:
    return bool(_C.is_in_bad_fork())


def device_count() -> int:
    """Logical NeuronCores that this process sees."""
    return int(_C.device_count())


def current_device() -> int:
    """Index of the current device of this thread."""
    return int(_C.current_device())


def set_device(device: Device) -> None:
    """Makes a device the current one of this thread; None leaves it as it is.

    Raises:
        ValueError: no such device.
    """
    _C.set_device(device_index(device))


class device:  # noqa: N801 - the name that every accelerator module has
    """Context manager that makes a device the current one."""

    def __init__(self, device: Device) -> None:
        self.idx = device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = current_device()
        _C.set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _C.set_device(self.prev_idx)


class device_of(device):  # noqa: N801
    """Context manager that makes the device of a neuron tensor the current one; other tensors change nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.device.type == "neuron" else None)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types that autocast accepts."""
    return [torch.float32, torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Every modelled generation computes in bfloat16."""
    del including_emulation
    return True


def get_fallback_ops() -> list[str]:
    """Ops from outside of aten that had no kernel for the device and ran through the CPU's, sorted by name."""
    return sorted(_C.fallback_ops())


def clear_op_tracking() -> None:
    """Forgets the ops that `get_fallback_ops` lists."""
    _C.clear_fallback_ops()


def _sleep(cycles: int) -> None:
    """Does nothing, like the real backend's."""
    del cycles


def _lazy_call(callable: Any, **_kwargs: Any) -> None:  # noqa: A002
    callable()
