"""Follows the profiling windows of this process: prepares them when they open, writes captures when they are done.

Nothing here may end the user's script: what cannot be written is said in one warning.
"""

import os
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trnscope.core.clock import HostMap
from trnscope.profiling import virtual_columns
from trnscope.profiling.capture import Environment, Observed, dropped_warning, write_capture
from trnscope.profiling.hooks import WindowHooks
from trnscope.profiling.placement import placed_window
from trnscope.profiling.samplers import Sampler, Samples
from trnscope.profiling.settings import ProfileMode, Settings
from trnscope.schema.records import Kind

if TYPE_CHECKING:
    from trnscope.runtime.connection import Runtime
    from trnscope.runtime.windows import Placed, Window, WindowStart


@dataclass(slots=True)
class _Opened:
    """A window that is open."""

    settings: Settings
    complaints: list[str]
    output: Path
    name: str
    thread: int
    hooks: WindowHooks
    sampler: Sampler
    loaded_before: frozenset[str]


@dataclass(frozen=True, slots=True)
class Finished:
    """What a finished window left.

    Attributes:
        directory: its capture; None when it could not be written.
        mapping: real to virtual host time.
        host_mode: how host time entered the clock.
    """

    directory: Path | None
    mapping: HostMap
    host_mode: str


class Session:
    """Observer of `trnscope.runtime.windows`; one per process."""

    def __init__(self) -> None:
        self._opened: _Opened | None = None
        self._finished: dict[str, Finished] = {}

    def last_window(self, config_string: str) -> Finished | None:
        """The window finished last among those with this configuration."""
        return self._finished.get(config_string)

    def start(self, info: "WindowStart") -> None:
        self._close()  # of a window that never came to its end
        if not info.config_string:
            return
        settings, complaints = Settings.from_string(info.config_string)
        runtime, extension = _runtime()
        follow_modules = bool(info.torch_flags.get("with_modules") or info.torch_flags.get("with_stack"))
        self._opened = _Opened(
            settings=settings,
            complaints=complaints,
            output=Path(settings.profile_output_dir).absolute(),
            name=window_name(info.real_start_ns),
            thread=info.thread,
            hooks=WindowHooks(extension, modules=follow_modules),
            sampler=Sampler(
                cpu=ProfileMode.CPU_UTIL in settings.modes, memory=ProfileMode.HOST_MEMORY in settings.modes
            ),
            loaded_before=runtime.timeline.durations.programs.keys(),
        )
        self._opened.hooks.install()
        self._opened.sampler.start()

    def finish(self, window: "Window", placed: "Placed") -> None:
        closed = self._close()
        if closed is None:
            return
        opened, samples = closed
        observed = _observed(opened, samples, window)
        runtime, _ = _runtime()
        environment = _environment(runtime)
        view = placed_window(window, placed, environment.costs, opened.settings, opened.thread)
        virtual_columns.attach(virtual_columns.VirtualWindow(view.mapping))
        for complaint in opened.complaints:
            _warn(f"ignored in the profiler's configuration: {complaint}")
        if view.dropped:
            _warn(dropped_warning(view.dropped, view.dropped + int(view.kept.sum())))
        directory = None
        try:
            directory = write_capture(view, opened.settings, environment, observed, opened.output, opened.name)
        except OSError as error:
            _warn(
                f"the capture in {opened.output} could not be written: {error.strerror or error}. The script goes on."
            )
        self._finished[window.config_string] = Finished(directory, view.mapping, environment.host_mode)

    def _close(self) -> tuple[_Opened, Samples] | None:
        """Take hooks and samplers of the open window away; returns the window and what was sampled."""
        opened, self._opened = self._opened, None
        if opened is None:
            return None
        opened.hooks.remove()
        return opened, opened.sampler.stop()


def _observed(opened: _Opened, samples: Samples, window: "Window") -> Observed:
    return Observed(
        modules=opened.hooks.modules if opened.hooks.follow_modules else None,
        samples=samples,
        loaded_before=opened.loaded_before,
        graphs=_launched_graphs(window),
        complaints=opened.complaints,
    )


def _launched_graphs(window: "Window") -> dict[str, Any] | None:
    """Columns of `Graph`, when one was launched: importing the compiler only to find nothing costs a second."""
    log = window.log
    signatures = np.unique(log["signature"][log["kind"] == Kind.GRAPH])
    if not len(signatures):
        return None
    from trnscope.compiler.registry import graph_columns

    return graph_columns({window.specs[int(signature)].name for signature in signatures})


def window_name(time_ns: int) -> str:
    """Directory name of a window: UTC time to the nanosecond."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{time.strftime('%Y%m%d_%H%M%S', time.gmtime(seconds))}_{rest:09d}"


def _environment(runtime: "Runtime") -> Environment:
    import torch

    from trnscope.config import resolve
    from trnscope.kernels.model import MODEL_VERSION

    return Environment(
        chip=runtime.chip,
        instance=runtime.instance,
        lnc=runtime.lnc,
        host_mode=runtime.host_mode,
        compute_mode=resolve().compute,
        model_version=MODEL_VERSION,
        calibration_id=runtime.timeline.durations.programs.target.calibration,
        torch_version=torch.__version__,
        process_id=os.getpid(),
        rank=int(os.environ.get("RANK", "0")) if os.environ.get("RANK", "0").isdigit() else 0,
        command=list(sys.argv),
        costs=runtime.timeline.costs,
    )


def _runtime() -> tuple["Runtime", Any]:
    from trnscope.device import _C
    from trnscope.runtime.connection import current

    return current(), _C


def _warn(message: str) -> None:
    warnings.warn(f"trnscope: {message}", RuntimeWarning, stacklevel=3)


session = Session()
_installed = False


def install() -> None:
    """Follow the windows of this process from here on."""
    global _installed
    if _installed:
        return
    _installed = True
    from trnscope.runtime import windows

    windows.add_observer(start=session.start, finish=session.finish)
    virtual_columns.install()
