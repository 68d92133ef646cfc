"""Rewrites a chrome trace of torch.profiler into virtual time.

Host events carry the emulating host's real time; they are moved by the map of the window. Device events were placed
on the virtual clock when they were emitted and stay as they are.
"""

from typing import Any, Final

import numpy as np

from trnscope.core.clock import HostMap

DEVICE_CATEGORIES: Final = frozenset(
    {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "privateuse1_driver", "collective_comm"}
)
_TIMED_PHASES: Final = frozenset("XBEiIsftnbe")


def to_virtual(trace: dict[str, Any], mapping: HostMap, about: dict[str, Any]) -> None:
    """Move the host events of a parsed chrome trace to the virtual host clock, in place.

    Args:
        trace: as torch writes it: `traceEvents` with `ts` and `dur` in microseconds after `baseTimeNanoseconds`.
        mapping: real to virtual host time, per system thread, in Unix nanoseconds.
        about: put into the trace under `trnscope`, so that a reader knows what the times are.
    """
    base_ns = int(trace.get("baseTimeNanoseconds", 0))
    events = [event for event in trace.get("traceEvents", ()) if _is_host(event)]
    ends: dict[Any, list[dict[str, Any]]] = {}
    for event in events:
        ends.setdefault(event.get("tid"), []).append(event)
    for thread, group in ends.items():
        key = thread if isinstance(thread, int) else -1
        start = base_ns + _nanoseconds([event["ts"] for event in group])
        end = start + _nanoseconds([event.get("dur", 0) for event in group])
        virtual_start = mapping.map_times(key, start)
        duration = (mapping.map_times(key, end) - virtual_start).tolist()
        for event, at, length in zip(group, (virtual_start - base_ns).tolist(), duration, strict=True):
            event["ts"] = at / 1000
            if "dur" in event:
                event["dur"] = length / 1000
    trace["trnscope"] = about


def _is_host(event: dict[str, Any]) -> bool:
    if event.get("ph") not in _TIMED_PHASES or "ts" not in event:
        return False
    category = event.get("cat")
    # The second end of a launch arrow lies on the device.
    return category not in DEVICE_CATEGORIES and not (category == "ac2g" and event["ph"] == "f")


def _nanoseconds(microseconds: list[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.rint(np.array(microseconds, np.float64) * 1000).astype(np.int64)
