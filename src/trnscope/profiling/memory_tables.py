"""Tables of the modelled device memory: storages that were alive in the window, and use over time."""

from typing import Any

import numpy as np
import pyarrow as pa

from trnscope.profiling.placement import Ints, PlacedWindow

Columns = dict[str, Any]


def tensors(view: PlacedWindow) -> Columns:
    """`Tensor`, in order of storage id."""
    events = view.window.memory_events
    times = _virtual(view)
    born, gone = np.flatnonzero(events["is_free"] == 0), np.flatnonzero(events["is_free"] != 0)
    born = born[np.argsort(events["storage"][born], kind="stable")]
    gone = gone[np.argsort(events["storage"][gone], kind="stable")]
    storage = events["storage"][born]
    position = np.searchsorted(events["storage"][gone], storage)
    freed = position < len(gone)
    freed[freed] = events["storage"][gone[position[freed]]] == storage[freed]
    free_ns = np.zeros(len(born), np.int64)
    free_ns[freed] = times[gone[position[freed]]]
    return {
        "storage_id": storage.astype(np.int64),
        "device": events["device"][born].astype(np.int64),
        "bytes": events["bytes"][born],
        "reserved_bytes": events["block_bytes"][born],
        "address": events["address"][born].astype(np.int64),
        "alloc_ns": pa.array(times[born], mask=events["time_ns"][born] == 0),
        "free_ns": pa.array(free_ns, mask=~freed),
    }


def hbm_usage(view: PlacedWindow) -> Columns:
    """`SystemProfileHbmUsage`: one row per change inside of the window."""
    events = view.window.memory_events
    inside = events["time_ns"] != 0
    return {
        "timestamp": _virtual(view)[inside],
        "nc_idx": events["device"][inside].astype(np.int64),
        "allocated_bytes": events["allocated_bytes"][inside],
        "reserved_bytes": events["reserved_bytes"][inside],
    }


def _virtual(view: PlacedWindow) -> Ints:
    """Times of the events on the virtual host clock. Storages from before the window have no time: 0."""
    real = view.window.memory_events["time_ns"]
    virtual: Ints = np.where(real == 0, 0, view.mapping.map_times(view.thread, real))
    return virtual
