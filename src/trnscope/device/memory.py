"""Memory statistics of the modelled HBM.

Names and meaning follow the real backend: `reserved >= allocated >= active`, sizes after rounding to a size class.
Values are exact as soon as an op returns, so no synchronisation is needed before reading them.
"""

from typing import Any, Final

from trnscope.device import _C
from trnscope.device.indices import Device, device_index

_NESTED: Final = ("allocated_bytes", "reserved_bytes", "active_bytes")


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Statistics of a device, under both spellings in use.

    `stats["allocated_bytes"]["current"]` (also `peak`, `allocated`, `freed`; also for `reserved_bytes` and
    `active_bytes`) as in the first releases of the real backend, and flat CUDA-like keys such as
    `stats["reserved_bytes.all.current"]` with the pools `all`, `small_pool` and `large_pool`.
    """
    raw = _C.memory_stats(device_index(device))
    stats: dict[str, Any] = {}
    for name, value in raw.items():
        if isinstance(value, dict):
            if name in _NESTED:
                stats[name] = value["all"]
            for pool, figures in value.items():
                for figure, amount in figures.items():
                    stats[f"{name}.{pool}.{figure}"] = amount
        else:
            stats[name] = value
    return stats


def _bytes(device: Device, name: str, figure: str) -> int:
    return int(_C.memory_stats(device_index(device))[name]["all"][figure])


def memory_allocated(device: Device = None) -> int:
    """Bytes held by tensors."""
    return _bytes(device, "allocated_bytes", "current")


def max_memory_allocated(device: Device = None) -> int:
    """Most bytes held by tensors since the start or the last reset of the peaks."""
    return _bytes(device, "allocated_bytes", "peak")


def memory_reserved(device: Device = None) -> int:
    """Bytes held by segments, free blocks included."""
    return _bytes(device, "reserved_bytes", "current")


def max_memory_reserved(device: Device = None) -> int:
    """Most bytes held by segments since the start or the last reset of the peaks."""
    return _bytes(device, "reserved_bytes", "peak")


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Bytes that no segment holds, and bytes of HBM in all."""
    free, total = _C.memory_info(device_index(device))
    return int(free), int(total)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Sets the peaks to the current values."""
    _C.reset_peak_memory_stats(device_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Zeroes the totals and the four counters."""
    _C.reset_accumulated_memory_stats(device_index(device))


def empty_cache() -> None:
    """Gives back the segments that hold no tensor."""
    _C.empty_cache()


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The statistics as a table."""
    index = device_index(device)
    stats = memory_stats(index)
    lines = [f"Neuron Memory Summary, Device {index} (modelled HBM)", f"{'bytes':16}{'current':>16}{'peak':>16}"]
    lines += [f"{name[:-6]:16}{stats[name]['current']:>16,}{stats[name]['peak']:>16,}" for name in _NESTED]
    if not abbreviated:
        counters = ("num_alloc_retries", "num_ooms", "num_tensor_frees", "allocation_requests")
        lines += [f"{name:32}{stats[name]:>16,}" for name in counters]
    return "\n".join(lines)
