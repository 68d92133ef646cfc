"""Tables of the host's time: what each thread did, the knots of the virtual clock, and profiler steps."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from trnscope.profiling.placement import Ints, PlacedWindow
from trnscope.schema.records import EXECUTION_KINDS, Kind

Columns = dict[str, Any]

CATEGORIES: Final = ("dispatch", "python", "sync", "copy")
_DISPATCH, _PYTHON, _SYNC, _COPY = range(4)


def host_intervals(view: PlacedWindow) -> Columns:
    """`HostInterval`: consecutive intervals of a thread touch, and the profiling thread's cover the window.

    What an autograd worker does counts for the thread that waits for it in `backward()`: its row has that thread's
    id, so that no time is counted twice. A call that waits is split: its own cost, the wait for earlier work of the
    stream (`sync`), and for copies the transfer.
    """
    threads = np.unique(np.append(view.clock_thread, view.thread))
    parts = [_intervals_of(view, int(thread)) for thread in threads]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} | {
        "category": pa.array(CATEGORIES).take(pa.array(np.concatenate([part["category"] for part in parts]))),
        "op_id": pa.array(
            np.concatenate([part["op_id"] for part in parts]),
            mask=np.concatenate([part["category"] for part in parts]) == _PYTHON,
        ),
    }


def _intervals_of(view: PlacedWindow, thread: int) -> dict[str, np.ndarray]:
    placed = view.placed
    # Views and marks pass like Python.
    chosen = (view.clock_thread == thread) & ~np.isin(view.log["kind"], (Kind.VIEW, Kind.MARK))
    log = view.log[chosen]
    start, end = placed.host_start_ns[chosen], placed.host_end_ns[chosen]
    issued = np.clip(view.submit_ns[chosen], start, end)
    runs = np.isin(log["kind"], EXECUTION_KINDS)
    copies = view.is_copy[chosen]
    begun = np.where(runs, np.clip(placed.device_start_ns[chosen], issued, end), end)
    own = np.where(copies, _COPY, np.where(runs, _DISPATCH, _SYNC))

    # Four pieces per record: the Python before it, its own cost, waiting, its transfer (a blocking launch waits on).
    before = np.concatenate([[view.start_ns if thread == view.thread else (start[0] if len(start) else 0)], end])
    pieces_start = np.stack([before[:-1], start, issued, begun], axis=1)
    pieces_end = np.stack([start, issued, begun, end], axis=1)
    last = np.where(copies, _COPY, _SYNC)
    category = np.stack([np.full(len(log), _PYTHON), own, np.full(len(log), _SYNC), last], axis=1)
    op_id = np.repeat(log["op_id"][:, None], 4, axis=1)
    uncertain = np.repeat(placed.uncertain[chosen][:, None], 4, axis=1)
    rows = {
        "start_ns": pieces_start.ravel(),
        "end_ns": pieces_end.ravel(),
        "category": category.ravel(),
        "op_id": op_id.ravel(),
        "uncertain": uncertain.ravel(),
    }
    if thread == view.thread and view.end_ns > before[-1]:
        tail = {"start_ns": before[-1], "end_ns": view.end_ns, "category": _PYTHON, "op_id": -1, "uncertain": False}
        rows = {name: np.append(column, tail[name]) for name, column in rows.items()}
    filled = rows["end_ns"] > rows["start_ns"]
    rows = {name: column[filled] for name, column in rows.items()}
    return rows | {"thread": np.full(int(filled.sum()), thread, np.int64)}


def clock_sync(view: PlacedWindow) -> Columns:
    """`ClockSync`: real to virtual host time, per thread."""
    knots = view.mapping.knots
    return {
        "thread": np.concatenate(
            [np.full(len(real), thread, np.int64) for thread, (real, _) in knots.items()] or [_NONE]
        ),
        "real_ns": np.concatenate([real for real, _ in knots.values()] or [_NONE]),
        "virtual_ns": np.concatenate([virtual for _, virtual in knots.values()] or [_NONE]),
    }


_NONE: Final[Ints] = np.empty(0, np.int64)


def steps(view: PlacedWindow) -> Columns:
    """`Step`: from one `prof.step()` to the next. Without any, the window is one step.

    What follows the last `step()` is a step of its own when something was launched in it.
    """
    marks = np.flatnonzero(view.log["kind"] == Kind.MARK)
    bounds = [view.start_ns, *view.placed.host_start_ns[marks].tolist()]
    after = view.placed.exec_id[marks[-1] + 1 :] if len(marks) else view.placed.exec_id
    if not len(marks) or (after >= 0).any():
        bounds.append(view.end_ns)
    return {"step": list(range(len(bounds) - 1)), "start_ns": bounds[:-1], "end_ns": bounds[1:]}
