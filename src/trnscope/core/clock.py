"""The virtual clock: a pure replay of the record log into virtual host and device times.

Values are computed on a slow host inside of each dispatch, so the host's wall time says nothing about the modelled
device. `replay` places every record on two virtual clocks instead:

* **Host.** Each thread has its own clock. In mode `measured` the real time between two records of a thread (Python)
  passes 1:1 and the time inside a dispatch is replaced by the modelled cost of that call (`ClockCosts`). In `modelled`
  Python costs nothing and no real time enters the result: it is reproducible. In `paced` host times pass unchanged.
* **Device.** A stream runs its executions in order:
  `start = max(submit + launch latency, stream free, events waited for)`, `end = start + duration`, never clipped.
  `submit` is the end of the modelled dispatch (in `paced`: the real entry).
* **Waiting.** Blocking executions (`Flag.BLOCKING`, copies between host and device unless `Flag.NON_BLOCKING`) and
  synchronisations move the host to the completion they wait for, exactly. In `paced` they leave the host alone.
* **Views and marks** have no cost of their own: their real time passes like Python's.

Threads. A thread that waits for another must not see the time that the other spends computing values:

* A thread that has records of autograd graph tasks only is a *worker* of the engine. It has no clock of its own: the
  *owner* of the task, the thread that is blocked in `backward()`, lends it its clock. The worker's records start at
  the owner's time, and the owner resumes at the worker's end plus the remaining real time. The owner is the thread
  outside of dispatch with the latest record; it is fixed for the whole task. If a second such thread recorded anything
  since the worker's previous task began, the owner is a guess and the records of the task are `uncertain`.
* A thread's first record continues from the thread with the latest record (`uncertain` if there are several threads).
* Otherwise threads run beside each other. Real time in which another thread dispatched passes in full, because this
  thread may have been busy rather than blocked: it is never too short. The record that follows it is `uncertain`.

The state between two replays is small, bounded and picklable; replaying a log in pieces equals replaying it at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from trnscope.core.clock_layout import (
    EVENT_ID,
    EVENT_TIME,
    MAX_EVENTS,
    MAX_STREAMS,
    MAX_THREADS,
    MODE_CODES,
    NO_ENTRY,
    REAL,
    STREAM_DEVICE,
    STREAM_FREE,
    STREAM_ID,
    THREAD_ID,
    VIRTUAL,
)
from trnscope.schema.records import EXECUTION_KINDS, LOG_DTYPE, Kind

Mode = Literal["measured", "modelled", "paced"]
Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ClockCosts:
    """Modelled host costs in integer nanoseconds; the values come from the chip's data file."""

    eager_dispatch_ns: int
    """One eager op or collective, until it is in the queue."""
    compiled_launch_ns: int
    """One launch of a compiled graph, until it is in the queue."""
    launch_latency_ns: int
    """From the queue to the earliest start on an idle device."""
    copy_overhead_ns: int
    """Issuing a copy, its transfer excluded."""
    sync_overhead_ns: int
    """A call of the runtime that launches nothing: recording or waiting for an event, synchronising."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 0:
                raise ValueError(f"ClockCosts.{name} is {getattr(self, name)}, must be >= 0")


@dataclass(frozen=True, slots=True, eq=False)
class ClockState:
    """What one replay leaves for the next: never changed afterwards, arrays included.

    Attributes:
        threads: (n, 10) int64, see the column names of this module.
        streams: (n, 3) int64: device, stream, virtual time at which it is free.
        events: (MAX_EVENTS, 2) int64: id and completion time, slot = id modulo MAX_EVENTS; id -1 = empty.
        count: records replayed so far.
    """

    threads: Times
    streams: Times
    events: Times
    count: int

    @classmethod
    def initial(cls) -> "ClockState":
        return cls(
            np.empty((0, 10), np.int64),
            np.empty((0, 3), np.int64),
            np.full((MAX_EVENTS, 2), NO_ENTRY, np.int64),
            0,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClockState):
            return NotImplemented
        return (
            self.count == other.count
            and np.array_equal(self.threads, other.threads)
            and np.array_equal(self.streams, other.streams)
            and np.array_equal(self.events, other.events)
        )

    __hash__ = None  # type: ignore[assignment]

    def event_time_ns(self, event_id: int) -> int | None:
        """Virtual device time at which a recorded event completes; None when it is unknown or forgotten."""
        entry = self.events[event_id % MAX_EVENTS]
        return int(entry[EVENT_TIME]) if event_id >= 0 and entry[EVENT_ID] == event_id else None

    def device_free_ns(self, device: int, stream: int | None = None) -> int | None:
        """Virtual time at which all work queued on a device (or one stream) is done; None when it had none."""
        chosen = self.streams[:, STREAM_DEVICE] == device
        if stream is not None:
            chosen &= self.streams[:, STREAM_ID] == stream
        free = self.streams[chosen, STREAM_FREE]
        return int(free.max()) if free.size else None

    def host_time_ns(self, thread: int) -> tuple[int, int] | None:
        """(real exit, virtual end) of a thread's last record, hand-overs included; None for an unknown thread."""
        found = self.threads[self.threads[:, THREAD_ID] == thread]
        return (int(found[0, REAL]), int(found[0, VIRTUAL])) if len(found) else None

    def shifted(self, delta_ns: int) -> "ClockState":
        """The same state with `delta_ns` added to all virtual times."""
        threads, streams, events = self.threads.copy(), self.streams.copy(), self.events.copy()
        threads[:, VIRTUAL] += delta_ns
        streams[:, STREAM_FREE] += delta_ns
        events[events[:, EVENT_ID] != NO_ENTRY, EVENT_TIME] += delta_ns
        return ClockState(threads, streams, events, self.count)


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """Virtual times of the records of one log, aligned with it. -1 where a record has no execution."""

    mode: Mode
    host_start_ns: Times
    host_end_ns: Times
    device_start_ns: Times
    device_end_ns: Times
    uncertain: npt.NDArray[np.bool_]
    lender: Times
    """Thread whose clock a record of an autograd worker used; -1 for none."""


def replay(
    state: ClockState, log: np.ndarray, duration_ns: Times, costs: ClockCosts, mode: Mode
) -> tuple[ClockState, Replay]:
    """Place the records of a log on the virtual clocks.

    Args:
        state: where the clocks stand.
        log: (n,) of LOG_DTYPE in order of entry, continuing the logs replayed before.
        duration_ns: (n,) modelled device time of each execution; ignored for other records.
        costs: modelled host costs.
        mode: `measured`, `modelled` or `paced`.

    Returns:
        The state after the log, and the times. `measured` starts at the first record's real time, `modelled` at 0.

    Raises:
        ValueError: wrong dtype, lengths or mode, or a negative duration.
    """
    if mode not in MODE_CODES:
        raise ValueError(f"mode is {mode!r}, must be one of {', '.join(MODE_CODES)}")
    if log.dtype != LOG_DTYPE or log.ndim != 1:
        raise ValueError(f"log has dtype {log.dtype} and {log.ndim} dimensions, must be a vector of LOG_DTYPE")
    durations = np.ascontiguousarray(duration_ns, dtype=np.int64)
    if durations.shape != log.shape:
        raise ValueError(f"{len(log)} records but {durations.shape} durations")
    kind = np.ascontiguousarray(log["kind"])
    if int(durations.min(initial=0)) < 0:  # rare, and only wrong for executions
        of_executions = np.where(_is_execution(kind), durations, 0)
        if int(of_executions.min()) < 0:
            raise ValueError(f"the duration of record {int(of_executions.argmin())} is negative")

    from trnscope.core.clock_kernel import run

    threads = _room(state.threads, MAX_THREADS)
    streams = _room(state.streams, MAX_STREAMS)
    has_events = bool(np.any(kind == Kind.EVENT_RECORD))
    events = state.events.copy() if has_events else state.events
    times = np.empty((4, len(log)), np.int64)
    lender = np.empty(len(log), np.int64)
    uncertain = np.empty(len(log), np.bool_)
    cost_vector = np.array([getattr(costs, name) for name in ClockCosts.__slots__], np.int64)
    sizes = np.array([len(state.threads), len(state.streams), state.count], np.int64)
    fields = (log[name] for name in ("enter_ns", "exit_ns", "aux", "thread", "graph_task"))
    more = (log[name] for name in ("device", "stream", "kind", "flags"))
    run(
        MODE_CODES[mode], *fields, *more, durations, cost_vector, threads, streams, events, sizes,
        times, lender, uncertain,
    )  # fmt: skip
    n_threads, n_streams, count = (int(n) for n in sizes)
    after = ClockState(threads[:n_threads].copy(), streams[:n_streams].copy(), events, count)
    return after, Replay(mode, times[0], times[1], times[2], times[3], uncertain, lender)


def submit_times(log: np.ndarray, placed: Replay, costs: ClockCosts) -> Times:
    """Virtual host time at which each record is handed to the device: the end of its modelled dispatch.

    Later than that, a blocking call only waits. In `paced` it is the real entry; for views and marks their end.
    """
    if placed.mode == "paced":
        entered: Times = log["enter_ns"].astype(np.int64)
        return entered
    cost = np.zeros(256, np.int64)
    cost[[Kind.OP, Kind.COLLECTIVE]] = costs.eager_dispatch_ns
    cost[Kind.GRAPH] = costs.compiled_launch_ns
    cost[[Kind.COPY_H2D, Kind.COPY_D2H, Kind.COPY_D2D]] = costs.copy_overhead_ns
    cost[Kind.EVENT_RECORD : Kind.DEVICE_SYNC + 1] = costs.sync_overhead_ns
    passes = (log["kind"] == Kind.VIEW) | (log["kind"] == Kind.MARK)
    submitted: Times = np.where(passes, placed.host_end_ns, placed.host_start_ns + cost[log["kind"]])
    return submitted


@dataclass(frozen=True, slots=True)
class HostMap:
    """Monotone, piecewise linear map from real to virtual host time, one per thread.

    Attributes:
        knots: thread -> (real_ns, virtual_ns), both sorted.
        slope: 1 where real time passes before the first and after the last knot, 0 where it costs nothing.
        default_thread: whose map stands in for threads without records (the one with the most knots).
    """

    knots: Mapping[int, tuple[Times, Times]]
    slope: int
    default_thread: int | None

    def map_times(self, thread: int, real_ns: npt.ArrayLike) -> Times:
        """Virtual host times of real ones. Without any record in the log, time is returned unchanged."""
        real = np.asarray(real_ns, dtype=np.int64)
        key = thread if thread in self.knots else self.default_thread
        if key is None:
            return real.copy()
        knots_real, knots_virtual = self.knots[key]
        position = np.searchsorted(knots_real, real, side="right")
        low = np.clip(position - 1, 0, len(knots_real) - 1)
        high = np.clip(position, 0, len(knots_real) - 1)
        span = knots_real[high] - knots_real[low]
        rise = knots_virtual[high] - knots_virtual[low]
        inside = real - knots_real[low]
        # Integers where the product stays below 2**63 (segments under 3 s); float64 differences beyond, exact to
        # one part in 2**53.
        exact = (span < _LONG_NS) & (rise < _LONG_NS)
        scaled = np.where(
            exact,
            np.where(exact, inside, 0) * np.where(exact, rise, 0) // np.maximum(span, 1),
            np.rint(inside / np.maximum(span, 1) * rise).astype(np.int64),
        )
        outside = (position == 0) | (position == len(knots_real))
        shift = np.where(outside, inside * self.slope, scaled)
        mapped: Times = knots_virtual[low] + shift
        return mapped


def host_map(log: np.ndarray, placed: Replay) -> HostMap:
    """The map from real to virtual host time that a replay implies.

    A thread's knots are the ends of its own records and of those that borrowed its clock, so that what a thread
    blocked in `backward()` sees is the virtual time of the worker.
    """
    knots: dict[int, tuple[Times, Times]] = {}
    thread_of = log["thread"].astype(np.int64)
    for thread in np.union1d(thread_of, placed.lender[placed.lender != NO_ENTRY]):
        chosen = (thread_of == thread) | (placed.lender == thread)
        real = np.stack([log["enter_ns"][chosen], log["exit_ns"][chosen]], axis=1).ravel()
        virtual = np.stack([placed.host_start_ns[chosen], placed.host_end_ns[chosen]], axis=1).ravel()
        knots[int(thread)] = (np.maximum.accumulate(real), np.maximum.accumulate(virtual))
    default = max(knots, key=lambda thread: len(knots[thread][0])) if knots else None
    return HostMap(knots, 0 if placed.mode == "modelled" else 1, default)


_LONG_NS: Final = 3_000_000_000


def _is_execution(kind: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[[int(k) for k in EXECUTION_KINDS]] = True
    chosen: npt.NDArray[np.bool_] = table[kind]
    return chosen


def _room(table: Times, capacity: int) -> Times:
    full = np.full((capacity, table.shape[1]), NO_ENTRY, np.int64)
    full[: len(table)] = table
    return full
