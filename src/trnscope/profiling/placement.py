"""A finished window as the tables see it: the log with its virtual times, and which executions are kept."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from trnscope.core.clock import ClockCosts, HostMap, host_map, submit_times
from trnscope.profiling.settings import Settings
from trnscope.schema.records import Kind

if TYPE_CHECKING:
    from trnscope.runtime.windows import Placed, Window

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

COPY_KINDS: Final = (Kind.COPY_H2D, Kind.COPY_D2H, Kind.COPY_D2D)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedWindow:
    """A window on the virtual clocks. Arrays are aligned with its log.

    Attributes:
        window, placed: as the runtime gave them.
        mapping: real to virtual host time.
        submit_ns: virtual host time at which a record was handed to the device.
        clock_thread: thread on whose clock a record lies: its own, or the one that lent its clock.
        kept: executions that the capture keeps.
        dropped: executions that the ring buffer did not hold.
        start_ns, end_ns: the window on the virtual host clock of the profiling thread.
        step: profiler step of each record, from 0.
        thread: system thread id of the thread that profiles.
    """

    window: "Window"
    placed: "Placed"
    mapping: HostMap
    submit_ns: Ints
    clock_thread: Ints
    kept: Bools
    dropped: int
    start_ns: int
    end_ns: int
    step: Ints
    thread: int

    @property
    def log(self) -> np.ndarray:
        return self.window.log

    @property
    def is_copy(self) -> Bools:
        copies: Bools = np.isin(self.log["kind"], COPY_KINDS)
        return copies


def placed_window(
    window: "Window", placed: "Placed", costs: ClockCosts, settings: Settings, thread: int
) -> PlacedWindow:
    """Derive what all tables need.

    Args:
        costs: host costs that the placement used.
        settings: core filter and ring size.
        thread: system thread id of the thread that profiles.
    """
    replayed = placed.placement
    log = window.log
    mapping = host_map(log, replayed)
    kept, dropped = kept_executions(log, placed.exec_id, settings)
    marks = log["kind"] == Kind.MARK
    ends = mapping.map_times(thread, [window.real_start_ns, window.real_end_ns])
    return PlacedWindow(
        window=window,
        placed=placed,
        mapping=mapping,
        submit_ns=submit_times(log, replayed, costs),
        clock_thread=np.where(replayed.lender >= 0, replayed.lender, log["thread"].astype(np.int64)),
        kept=kept,
        dropped=dropped,
        start_ns=int(ends[0]),
        end_ns=int(ends[1]),
        step=np.cumsum(marks) - marks,
        thread=thread,
    )


def kept_executions(log: np.ndarray, exec_id: Ints, settings: Settings) -> tuple[Bools, int]:
    """Executions that the core filter passes and the ring buffer of each logical NeuronCore holds.

    Returns:
        The kept records, and how many executions the ring buffers dropped: the oldest of each core.
    """
    kept = exec_id >= 0
    if settings.capture_enabled_for_nc is not None:
        kept &= np.isin(log["device"], settings.capture_enabled_for_nc)
    dropped = 0
    for device in np.unique(log["device"][kept]):
        mine = np.flatnonzero(kept & (log["device"] == device))
        surplus = max(0, len(mine) - settings.max_events_per_nc)
        kept[mine[:surplus]] = False
        dropped += surplus
    return kept, dropped
