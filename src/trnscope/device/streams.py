"""Streams and events.

Unless `NEURON_RT_ENABLE_HOST_CC=1` is set, every new stream *is* the default stream, as on the real backend. An
event's time is the modelled time of the device: the real backend reads the host's clock when an event is recorded.
"""

from types import TracebackType
from typing import Any, Self

import torch

from trnscope.device import _C
from trnscope.device.indices import Device, device_index


class Stream(torch.Stream):  # type: ignore[misc]
    """A queue of work of one device.

    Args:
        device: the current one unless given.
        priority: negative for high priority.
        stream_id, device_index, device_type: names an existing stream instead.
    """

    def __new__(cls, *, device: Device = None, priority: int = 0, **existing: int) -> Self:
        if existing:
            named: Self = super().__new__(cls, **existing)
            return named
        if isinstance(device, (str, torch.device)) and torch.device(device).type != "neuron":
            raise RuntimeError(f"Expected Neuron device, got: {torch.device(device).type}")
        made: Self = super().__new__(cls, torch.device("neuron", device_index(device)), priority=priority)
        return made

    def wait_stream(self, stream: torch.Stream) -> None:
        """Later work of this stream waits for all work that `stream` has now."""
        if stream.device_index != self.device_index:
            raise RuntimeError("Cross-device stream synchronization not supported")
        if stream != self:
            super().wait_stream(stream)

    def __repr__(self) -> str:
        return f"<torch.neuron.Stream device=neuron:{self.device_index} stream_id={self.stream_id}>"


class Event(torch.Event):  # type: ignore[misc]
    """A mark in a stream.

    Args:
        enable_timing: whether `elapsed_time` may be asked.
        blocking: accepted for compatibility; waiting never spins here.
    """

    _timed: bool
    _recorded_on: torch.device | None

    def __new__(cls, enable_timing: bool = False, blocking: bool = False) -> Self:
        event: Self = super().__new__(cls, device="neuron", enable_timing=enable_timing, blocking=blocking)
        event._timed = enable_timing
        event._recorded_on = None
        return event

    @property
    def device(self) -> torch.device | None:
        """Device of the stream it was recorded on, None before."""
        return self._recorded_on

    def record(self, stream: torch.Stream | None = None) -> None:
        """Marks the present end of a stream, the current one unless given."""
        stream = stream if stream is not None else current_stream()
        super().record(stream)
        self._recorded_on = torch.device("neuron", stream.device_index)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds of modelled device time from this event to `end_event`."""
        for name, event in (("Event", self), ("End event", end_event)):
            if not getattr(event, "_timed", True):
                raise RuntimeError(f"{name} was not created with timing enabled")
            if getattr(event, "_recorded_on", None) is None:
                raise RuntimeError(f"{name} has not been recorded")
        if self._recorded_on != end_event._recorded_on:
            raise RuntimeError("Events must be on the same device")
        # torch.Event.elapsed_time takes no subclass of itself
        return _C.elapsed_ms(self.event_id, end_event.event_id)


class StreamContext:
    """Context manager that makes a stream the current one of its device; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous: torch.Stream | None = None

    def __enter__(self) -> None:
        if self.stream is not None:
            self._previous = current_stream(self.stream.device_index)
            torch.accelerator.set_stream(self.stream)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous is not None:
            torch.accelerator.set_stream(self._previous)


def _as_neuron(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def stream(stream: torch.Stream | None) -> StreamContext:
    """A context in which `stream` is the current one."""
    return StreamContext(stream)


def current_stream(device: Device = None) -> Stream:
    """The stream that this thread works on."""
    return _as_neuron(torch.accelerator.current_stream(device_index(device)))


def default_stream(device: Device = None) -> Stream:
    """The stream that every thread starts on."""
    device_type = int(torch._C._autograd.DeviceType.PrivateUse1)
    return Stream(stream_id=0, device_index=device_index(device), device_type=device_type)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream the current one of this thread; None is ignored."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


def synchronize(device: Device = None) -> None:
    """The host waits for all work of a device: its virtual clock moves to the completion."""
    torch.accelerator.synchronize(device_index(device))


def wait_stream(stream: torch.Stream) -> None:
    """Later work of the current stream waits for all work that `stream` has now."""
    current_stream(stream.device_index).wait_stream(stream)


def wait_event(event: torch.Event) -> None:
    """Later work of the current stream waits for an event."""
    current_stream().wait_event(event)


def record_event(event: torch.Event | None = None) -> Any:
    """Records an event, a new one unless given, on the current stream."""
    return current_stream().record_event(event if event is not None else Event())


def query() -> bool:
    """Whether all work of the current stream is done: always, since values exist when an op returns."""
    return bool(current_stream().query())
