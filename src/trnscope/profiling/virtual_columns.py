"""Puts the CPU columns of `key_averages()` on the virtual host clock, for profiles with a NeuronConfig.

torch has no hook between reading the events of a profile and summing them up, so two methods of its autograd profiler
are wrapped. torch is pinned exactly and a test covers the wrapped methods, so a change there cannot pass unseen. All
other profiles go through unchanged.
"""

import functools
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch.autograd import DeviceType

from trnscope.core.clock import HostMap

_ATTRIBUTE: Final = "_trnscope_window"
_DEVICE_ROWS: Final = "privateuse1_driver"
"""Activity type of executions on the device that torch counts as host events."""


@dataclass(frozen=True, slots=True)
class VirtualWindow:
    """What a finished window leaves for the profile it belongs to."""

    mapping: HostMap


_stopping: list[torch.autograd.profiler.profile] = []
_installed = False


def attach(window: VirtualWindow) -> None:
    """Give the window that is being finished to the profile that is being stopped, if there is one."""
    if _stopping:
        setattr(_stopping[-1], _ATTRIBUTE, window)


def install() -> None:
    """Wrap torch's autograd profiler; done once per process."""
    global _installed
    if _installed:
        return
    _installed = True
    kind = torch.autograd.profiler.profile
    leave, parse = kind.__exit__, kind._parse_kineto_results

    @functools.wraps(leave)
    def exit_profile(self: Any, *error: Any) -> Any:
        setattr(self, _ATTRIBUTE, None)
        _stopping.append(self)
        try:
            return leave(self, *error)
        finally:
            _stopping.remove(self)

    @functools.wraps(parse)
    def parse_results(self: Any, result: Any, timeout_s: float | None = None) -> Any:
        events = parse(self, result, timeout_s)
        window = getattr(self, _ATTRIBUTE, None)
        return _to_virtual(events, window, result.trace_start_ns()) if isinstance(window, VirtualWindow) else events

    kind.__exit__ = exit_profile
    kind._parse_kineto_results = parse_results


def _to_virtual(events: list[Any], window: VirtualWindow, origin_ns: int) -> list[Any]:
    """Host events on the virtual host clock; executions that torch takes for host events are left out."""
    kept = [event for event in events if event.activity_type != _DEVICE_ROWS]
    host = [event for event in kept if event.device_type == DeviceType.CPU]
    # torch numbers threads by itself; the system's number is the resource of the event, missing for memory events.
    system_thread = {event.thread: event.device_resource_id for event in host if event.device_resource_id}
    threads = np.array([event.device_resource_id or system_thread.get(event.thread, -1) for event in host], np.int64)
    start = origin_ns + np.rint(np.array([event.time_range.start for event in host]) * 1000).astype(np.int64)
    end = origin_ns + np.rint(np.array([event.time_range.end for event in host]) * 1000).astype(np.int64)
    for thread in np.unique(threads):
        mine = threads == thread
        start[mine] = window.mapping.map_times(int(thread), start[mine])
        end[mine] = window.mapping.map_times(int(thread), end[mine])
    virtual_start = ((start - origin_ns) / 1000).tolist()
    virtual_end = ((end - origin_ns) / 1000).tolist()
    for event, first, last in zip(host, virtual_start, virtual_end, strict=True):
        event.time_range.start = first
        event.time_range.end = last
    kept.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
    return kept
