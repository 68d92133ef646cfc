"""Profiling windows: what the Kineto plugin starts, stops and finishes, and whom that is told to.

Order of a window: `start` (the log before it is folded, observers prepare), `stop` (its records are taken), `finish`
(they are placed on the clock, observers write captures, and the plugin gets its rows). Nothing here may break the
user's script: an observer that fails is warned about.
"""

import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from trnscope.core.clock import ClockState, Mode, Replay
from trnscope.graph.spec import GraphSpec, OpSpec
from trnscope.runtime.emission import Emission, emission
from trnscope.runtime.signatures import spec_of
from trnscope.runtime.timeline import LogSource, Segment, Timeline, shifted
from trnscope.schema.records import Kind, Phase

if TYPE_CHECKING:
    from trnscope.kernels import Modelled

COPY_KINDS: Final = (Kind.COPY_H2D, Kind.COPY_D2H, Kind.COPY_D2D)

Frame = tuple[str, int, str]
"""File, line and qualified function name."""


@dataclass(frozen=True, slots=True)
class WindowStart:
    """What is known when a window opens.

    Attributes:
        number: counts windows of this process from 1.
        config_string: torch's `custom_profiler_config`; empty for a profile without one.
        torch_flags: record_shapes, profile_memory, with_stack, with_flops, with_modules.
        wants_device: device activities were asked for; without them torch shows no rows of this device.
        real_start_ns: Unix time.
        thread: system thread id of the thread that profiles.
    """

    number: int
    config_string: str
    torch_flags: Mapping[str, bool]
    wants_device: bool
    real_start_ns: int
    thread: int


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A finished window.

    Attributes:
        number, config_string, torch_flags, wants_device, real_start_ns: as in WindowStart.
        real_end_ns: Unix time.
        log: (n,) of LOG_DTYPE, in order of entry. Backward records carry stack and module of their forward op.
        refs: storage ids; `log["tensors"]` points into it.
        specs: signature -> op or graph, for all signatures of the log.
        stacks: stack id -> frames, innermost first.
        memory_events: one allocation without time (0) per storage alive at the start, then allocations and frees of
            device memory in the window.
        threads: system thread id -> name, of Python threads that were alive at the end.
    """

    number: int
    config_string: str
    torch_flags: Mapping[str, bool]
    wants_device: bool
    real_start_ns: int
    real_end_ns: int
    log: np.ndarray
    refs: npt.NDArray[np.uint64]
    specs: Mapping[int, OpSpec | GraphSpec]
    stacks: Mapping[int, list[Frame]]
    memory_events: np.ndarray
    threads: Mapping[int, str]


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where the records of a window are on the virtual clocks. Arrays are aligned with the log.

    Attributes:
        placement: virtual times, shifted so that the window's start equals its real Unix time.
        exec_id: execution of each record, -1 for records that are none.
        program: index into `programs`, -1 for copies and records that are no execution.
        programs: distinct programs of the window, in order of first use.
    """

    placement: Replay
    exec_id: npt.NDArray[np.int64]
    program: npt.NDArray[np.int64]
    programs: tuple["Modelled", ...]

    @property
    def host_start_ns(self) -> npt.NDArray[np.int64]:
        return self.placement.host_start_ns

    @property
    def host_end_ns(self) -> npt.NDArray[np.int64]:
        return self.placement.host_end_ns

    @property
    def device_start_ns(self) -> npt.NDArray[np.int64]:
        return self.placement.device_start_ns

    @property
    def device_end_ns(self) -> npt.NDArray[np.int64]:
        return self.placement.device_end_ns

    @property
    def uncertain(self) -> npt.NDArray[np.bool_]:
        return self.placement.uncertain


StartObserver = Callable[[WindowStart], None]
FinishObserver = Callable[[Window, Placed], None]

_observers: Final[list[tuple[StartObserver | None, FinishObserver | None]]] = []


def add_observer(start: StartObserver | None = None, finish: FinishObserver | None = None) -> None:
    """Calls `start` when a window opens and `finish` when it is placed, on the thread that profiles."""
    _observers.append((start, finish))


class WindowSource(LogSource, Protocol):
    """The part of the device extension that windows need."""

    def describe_stack(self, stack: int) -> list[Frame]: ...

    def reset_stacks(self) -> None: ...

    def live_storages(self) -> np.ndarray: ...

    def log_memory_events(self, on: bool) -> None: ...

    def drain_memory_events(self) -> np.ndarray: ...


class Windows:
    """The windows of a process; Kineto has at most one open at a time."""

    def __init__(self, source: WindowSource, timeline: Timeline) -> None:
        self._source = source
        self._timeline = timeline
        self._number = 0
        self._open: _OpenWindow | None = None
        self._noted = False

    def start(self, config_string: str, torch_flags: dict[str, bool], wants_device: bool) -> None:
        """Opens a window."""
        state = self._timeline.open_window()
        self._number += 1
        info = WindowStart(
            number=self._number,
            config_string=config_string,
            torch_flags=dict(torch_flags),
            wants_device=wants_device,
            real_start_ns=time.time_ns(),
            thread=threading.get_native_id(),
        )
        self._open = _OpenWindow(info, state)
        self._open.live_storages = self._source.live_storages()
        self._source.log_memory_events(on=True)
        for observer, _ in _observers:
            if observer is not None:
                _guarded(observer, info)

    def stop(self) -> None:
        """Takes the records of the window."""
        if self._open is None:
            return
        self._open.real_end_ns = time.time_ns()
        self._open.segment = self._timeline.close_window()
        self._source.log_memory_events(on=False)
        self._open.memory_events = np.concatenate([self._open.live_storages, self._source.drain_memory_events()])

    def finish(self) -> tuple[Any, ...] | None:
        """Places the window, tells the observers, and returns what the extension emits."""
        opened, self._open = self._open, None
        if opened is None or opened.segment is None:
            return None
        window, placed = self._placed(opened)
        for _, observer in _observers:
            if observer is not None:
                _guarded(observer, window, placed)
        return self._emission(opened, window, placed).as_tuple()

    def _placed(self, opened: "_OpenWindow") -> tuple[Window, Placed]:
        info, segment = opened.info, opened.segment
        assert segment is not None
        log = segment.log
        signatures = np.unique(log["signature"])
        specs = {int(s): spec for s in signatures if (spec := spec_of(self._source, int(s))) is not None}
        inherit_from_forward(log)
        stacks = {int(s): self._source.describe_stack(int(s)) for s in np.unique(log["stack"]) if s != 0}
        self._source.reset_stacks()
        window = Window(
            number=info.number,
            config_string=info.config_string,
            torch_flags=info.torch_flags,
            wants_device=info.wants_device,
            real_start_ns=info.real_start_ns,
            real_end_ns=opened.real_end_ns,
            log=log,
            refs=segment.refs,
            specs=specs,
            stacks=stacks,
            memory_events=opened.memory_events,
            threads={t.native_id: t.name for t in threading.enumerate() if t.native_id is not None},
        )
        delta_ns = info.real_start_ns - virtual_now_ns(
            opened.state, info.thread, info.real_start_ns, self._timeline.mode
        )
        program, programs = self._programs(log, segment.exec_id, specs)
        return window, Placed(shifted(segment.placed, delta_ns), segment.exec_id, program, programs)

    def _programs(
        self, log: np.ndarray, exec_id: npt.NDArray[np.int64], specs: Mapping[int, OpSpec | GraphSpec]
    ) -> tuple[npt.NDArray[np.int64], tuple["Modelled", ...]]:
        """Program index of each record, and the distinct programs."""
        signatures, first, inverse = np.unique(log["signature"], return_index=True, return_inverse=True)
        used = np.zeros(len(signatures), np.bool_)
        used[inverse[exec_id >= 0]] = True
        index_of: dict[str, int] = {}
        programs: list[Modelled] = []
        rows = np.full(len(signatures), -1, np.int64)
        for position in np.argsort(first):
            spec = specs.get(int(signatures[position]))
            if spec is None or not used[position]:
                continue
            modelled = self._timeline.durations.programs.get(spec)
            if modelled.key not in index_of:
                index_of[modelled.key] = len(programs)
                programs.append(modelled)
            rows[position] = index_of[modelled.key]
        copies = is_copy(log)
        program = np.where((exec_id >= 0) & ~copies, rows[inverse], -1) if len(log) else np.empty(0, np.int64)
        return program, tuple(programs)

    def _emission(self, opened: "_OpenWindow", window: Window, placed: Placed) -> Emission:
        if not window.config_string:
            self._note_raw_host_times(window, placed)
            # Nobody maps the host events of a plain profile to virtual time: device work is placed beside real ones.
            assert opened.segment is not None
            beside = self._timeline.place(window.log, opened.segment.duration_ns, "paced")
            placed = Placed(beside, placed.exec_id, placed.program, placed.programs)
            return emission(window, placed, as_kernels=True, as_driver=False)
        return emission(window, placed, as_kernels=wants_kernels(window.config_string), as_driver=True)

    def _note_raw_host_times(self, window: Window, placed: Placed) -> None:
        if self._noted or not window.wants_device or not (placed.exec_id >= 0).any():
            return
        self._noted = True
        print(
            "trnscope: CPU times of this profile are those of the emulating host, device times are modelled; with "
            "experimental_config=NeuronConfig(...) both are on one virtual clock.",
            file=sys.stderr,
        )


class _OpenWindow:
    def __init__(self, info: WindowStart, state: ClockState) -> None:
        self.info = info
        self.state = state
        self.real_end_ns = 0
        self.segment: Segment | None = None
        self.live_storages = np.empty(0)
        self.memory_events = np.empty(0)


def wants_kernels(config_string: str) -> bool:
    """Whether a session's configuration asks for device time in torch's own tables."""
    options = config_string.replace(" ", "").lower().split(";")
    return "correlate_device_time:true" in options


def virtual_now_ns(state: ClockState, thread: int, real_ns: int, mode: Mode) -> int:
    """Virtual host time of a thread at a real time after its last record."""
    known = state.host_time_ns(thread)
    if known is None:
        others = [state.host_time_ns(int(row[0])) for row in state.threads]
        known = max((other for other in others if other is not None), default=None)
    if known is None:  # the clock starts with the first record: at its real time, or at 0
        return 0 if mode == "modelled" else real_ns
    real_exit, virtual_end = known
    return virtual_end if mode == "modelled" else virtual_end + max(0, real_ns - real_exit)


def inherit_from_forward(log: np.ndarray) -> None:
    """Gives backward records without a stack or module those of the forward op with the same sequence number.

    Changes `log` in place. Sequence numbers count per thread: where two forward threads share a number, nothing is
    inherited, since it cannot be told which of them is meant.
    """
    numbered = log["seq_nr"] >= 0
    forward = np.flatnonzero(numbered & (log["phase"] != Phase.BACKWARD))
    backward = np.flatnonzero(numbered & (log["phase"] == Phase.BACKWARD))
    if not len(forward) or not len(backward):
        return
    numbers, first, inverse = np.unique(log["seq_nr"][forward], return_index=True, return_inverse=True)
    source = forward[first]
    ambiguous = np.zeros(len(numbers), np.bool_)
    ambiguous[inverse[log["thread"][forward] != log["thread"][source][inverse]]] = True
    position = np.searchsorted(numbers, log["seq_nr"][backward])
    position[position == len(numbers)] = 0
    matched = (numbers[position] == log["seq_nr"][backward]) & ~ambiguous[position]
    for column in ("stack", "module"):
        empty = matched & (log[column][backward] == 0)
        log[column][backward[empty]] = log[column][source[position[empty]]]


def is_copy(log: np.ndarray) -> npt.NDArray[np.bool_]:
    """Which records are copies: they have a signature, but no program."""
    copies: npt.NDArray[np.bool_] = np.isin(log["kind"], COPY_KINDS)
    return copies


def _guarded(observer: Callable[..., None], *arguments: object) -> None:
    try:
        observer(*arguments)
    except Exception as error:
        warnings.warn(f"trnscope: profiling failed: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)
