"""Connects the device extension with the runtime, once per process."""

import atexit
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from trnscope.core.clock import Mode
    from trnscope.runtime.timeline import Timeline
    from trnscope.runtime.windows import Windows


class Runtime:
    """The runtime of a process. The model and the clock are imported when the first records arrive.

    Attributes:
        chip, lnc, instance: what is modelled.
        host_mode: how host time enters the virtual clock.
    """

    def __init__(self, extension: Any, chip: str, lnc: int, instance: str, host_mode: str) -> None:
        self.chip = chip
        self.lnc = lnc
        self.instance = instance
        self.host_mode = host_mode
        self._extension = extension
        self._timeline: Timeline | None = None
        self._windows: Windows | None = None

    @property
    def timeline(self) -> "Timeline":
        if self._timeline is None:
            from trnscope.chips import Target
            from trnscope.kernels import model
            from trnscope.runtime.programs import Durations, ProgramCache
            from trnscope.runtime.timeline import Timeline, clock_costs

            target = Target(chip=self.chip, lnc=self.lnc, instance=self.instance)
            durations = Durations(self._extension, ProgramCache(target, model))
            self._timeline = Timeline(self._extension, durations, clock_costs(target), cast("Mode", self.host_mode))
        return self._timeline

    @property
    def windows(self) -> "Windows":
        if self._windows is None:
            from trnscope.runtime.windows import Windows

            self._windows = Windows(self._extension, self.timeline)
        return self._windows


_runtime: Runtime | None = None


def connect(extension: Any, *, chip: str, lnc: int, instance: str, host_mode: str) -> Runtime:
    """Lets the extension call the runtime from here on, until the interpreter exits."""
    global _runtime
    runtime = _runtime = Runtime(extension, chip, lnc, instance, host_mode)
    extension.connect_runtime(
        flush=lambda: runtime.timeline.flush(),
        event_time_ns=lambda event_id: runtime.timeline.event_time_ns(event_id),
    )
    extension.connect_windows(
        start=lambda *arguments: runtime.windows.start(*arguments),
        stop=lambda: runtime.windows.stop(),
        finish=lambda: runtime.windows.finish(),
    )
    atexit.register(extension.disconnect_windows)
    atexit.register(extension.disconnect_runtime)
    return runtime


def current() -> Runtime:
    """The runtime of this process.

    Raises:
        RuntimeError: the device was not registered.
    """
    if _runtime is None:
        raise RuntimeError("the neuron device is not registered in this process")
    return _runtime
