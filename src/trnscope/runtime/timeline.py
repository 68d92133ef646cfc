"""The virtual clock of this process: takes the record log as it grows and remembers where every stream stands."""

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from trnscope.core.clock import ClockCosts, ClockState, Mode, Replay, replay
from trnscope.runtime.programs import Durations
from trnscope.runtime.signatures import SignatureSource
from trnscope.schema.records import EXECUTION_KINDS, LOG_DTYPE

if TYPE_CHECKING:
    from trnscope.chips import Target

SIGNATURE_LIMIT: Final = 65_536
"""Op signatures held outside of profiling windows before all are forgotten."""


_IS_EXECUTION: Final = np.isin(np.arange(256), EXECUTION_KINDS)
"""By kind."""


class LogSource(SignatureSource, Protocol):
    """The part of the device extension that hands the log over."""

    def drain_log(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A stretch of the log with its placement. Arrays are aligned with `log`, except `refs`.

    Attributes:
        log: (n,) of LOG_DTYPE.
        refs: storage ids; `log["tensors"]` points into it.
        duration_ns: device time of each record.
        exec_id: execution of each record, -1 for records that are none.
        placed: virtual times.
    """

    log: np.ndarray
    refs: npt.NDArray[np.uint64]
    duration_ns: npt.NDArray[np.int64]
    exec_id: npt.NDArray[np.int64]
    placed: Replay


def clock_costs(target: "Target") -> ClockCosts:
    """Host costs of a target, from its chip file."""
    host = target.host
    return ClockCosts(
        eager_dispatch_ns=host.eager_dispatch_ns,
        compiled_launch_ns=host.compiled_launch_ns,
        launch_latency_ns=host.launch_latency_ns,
        copy_overhead_ns=host.copy_overhead_ns,
        sync_overhead_ns=host.sync_overhead_ns,
    )


class Timeline:
    """Clock state of a process. All methods may be called from any thread."""

    def __init__(self, source: LogSource, durations: Durations, costs: ClockCosts, mode: Mode) -> None:
        self.durations = durations
        self.costs = costs
        self.mode: Mode = mode
        self._source = source
        self._lock = threading.RLock()
        self._state = ClockState.initial()
        self._executions = 0
        self._kept: list[Segment] | None = None  # of the open window

    @property
    def state(self) -> ClockState:
        """Where the clocks stand after the records folded so far."""
        return self._state

    def flush(self) -> None:
        """Takes all records from the extension: replays them, and keeps them while a window is open."""
        with self._lock:
            raw_log, raw_refs = self._source.drain_log()
            if len(raw_log):
                self._take(raw_log.view(LOG_DTYPE), raw_refs.view(np.uint64))
            if self._kept is None and self._source.signature_count() > SIGNATURE_LIMIT:
                self._source.reset_signatures()
                self.durations.forget()

    def event_time_ns(self, event_id: int) -> int:
        """Virtual device time at which an event completes. The log must have been flushed.

        Raises:
            RuntimeError: the event is unknown, or was recorded so long ago that its time was dropped.
        """
        time = self._state.event_time_ns(event_id)
        if time is None:
            raise RuntimeError(f"the time of event recording {event_id} is not known any more")
        return time

    def open_window(self) -> ClockState:
        """Keeps records from here on. Returns the state at which they continue."""
        with self._lock:
            self.flush()
            self._kept = []
            return self._state

    def close_window(self) -> Segment:
        """Stops keeping records and returns those of the window."""
        with self._lock:
            self.flush()
            kept, self._kept = self._kept or [], None
            return joined(kept, self.mode)

    def place(self, log: np.ndarray, duration_ns: npt.NDArray[np.int64], mode: Mode) -> Replay:
        """Places a log by itself, on idle streams."""
        return replay(ClockState.initial(), log, duration_ns, self.costs, mode)[1]

    def _take(self, log: np.ndarray, refs: npt.NDArray[np.uint64]) -> None:
        duration_ns = self.durations.of(log)
        self._state, placed = replay(self._state, log, duration_ns, self.costs, self.mode)
        is_execution = _IS_EXECUTION.take(log["kind"])
        first = self._executions
        self._executions += int(np.count_nonzero(is_execution))
        if self._kept is not None:
            exec_id = np.where(is_execution, first + np.cumsum(is_execution) - 1, -1)
            self._kept.append(Segment(log, refs, duration_ns, exec_id, placed))


def joined(segments: list[Segment], mode: Mode) -> Segment:
    """Segments that follow each other, as one."""
    if len(segments) == 1:
        return segments[0]
    offset = 0
    logs = []
    for segment in segments:
        log = segment.log.copy()
        log["tensors"] += offset
        offset += len(segment.refs)
        logs.append(log)
    placed = [segment.placed for segment in segments]

    def times(name: str, dtype: type = np.int64) -> np.ndarray:
        return np.concatenate([getattr(one, name) for one in placed]) if placed else np.empty(0, dtype)

    def column(name: str, dtype: type = np.int64) -> np.ndarray:
        return np.concatenate([getattr(one, name) for one in segments]) if segments else np.empty(0, dtype)

    return Segment(
        log=np.concatenate(logs) if logs else np.empty(0, LOG_DTYPE),
        refs=column("refs", np.uint64),
        duration_ns=column("duration_ns"),
        exec_id=column("exec_id"),
        placed=Replay(
            mode,
            times("host_start_ns"),
            times("host_end_ns"),
            times("device_start_ns"),
            times("device_end_ns"),
            times("uncertain", np.bool_),
            times("lender"),
        ),
    )


def shifted(placed: Replay, delta_ns: int) -> Replay:
    """The same placement with `delta_ns` added to all virtual times; records without execution keep -1."""

    def moved(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        result: npt.NDArray[np.int64] = np.where(placed.device_start_ns == -1, -1, times + delta_ns)
        return result

    return replace(
        placed,
        host_start_ns=placed.host_start_ns + delta_ns,
        host_end_ns=placed.host_end_ns + delta_ns,
        device_start_ns=moved(placed.device_start_ns),
        device_end_ns=moved(placed.device_end_ns),
    )
