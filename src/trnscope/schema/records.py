"""The record log: what the device extension writes for every dispatched op, copy and synchronisation.

The log is one append-only array per process, ordered by the moment of entry. `LOG_DTYPE` mirrors the C++ struct
`trnscope::LogRecord` byte for byte (a test compares the two). Host times are Unix nanoseconds of the real host; the
virtual clock (`trnscope.core.clock`) turns them into virtual host and device times.
"""

from enum import IntEnum, IntFlag
from typing import Final

import numpy as np


class Kind(IntEnum):
    """What a record stands for."""

    OP = 0
    """One eager op: one execution of one program on one logical NeuronCore."""
    GRAPH = 1
    """One launch of a compiled graph: one execution."""
    COPY_H2D = 2
    """Host to device copy. `aux` is its size in bytes; blocking unless `Flag.NON_BLOCKING`."""
    COPY_D2H = 3
    """Device to host copy (also `item()`). `aux` is its size in bytes; blocking unless `Flag.NON_BLOCKING`."""
    COPY_D2D = 4
    """Copy between two logical cores. `aux` is its size in bytes; `device` is the destination."""
    COLLECTIVE = 5
    EVENT_RECORD = 6
    """`Event.record`. `aux` is the event's id, which is new at each recording."""
    EVENT_WAIT = 7
    """A stream waits for the event `aux`."""
    EVENT_SYNC = 8
    """The host waits for the event `aux`."""
    STREAM_SYNC = 9
    DEVICE_SYNC = 10
    VIEW = 11
    """A view op: no execution, no device time; kept only where a window asks for it."""
    MARK = 12
    """A host mark without effect on the clock: window start and end, `prof.step()`. `aux` is its number."""


EXECUTION_KINDS: Final = (Kind.OP, Kind.GRAPH, Kind.COPY_H2D, Kind.COPY_D2H, Kind.COPY_D2D, Kind.COLLECTIVE)
"""Kinds that occupy a stream and become one execution each."""


class Phase(IntEnum):
    """Part of the training step that an op belongs to."""

    FORWARD = 0
    BACKWARD = 1
    OPTIMIZER = 2


class Origin(IntEnum):
    """How an op came to the device."""

    EAGER = 0
    COMPILED = 1
    COPY = 2
    COLLECTIVE = 3
    FALLBACK = 4


class Flag(IntFlag):
    """Properties of one record."""

    NON_BLOCKING = 1
    """A copy that returns before it is done."""
    BLOCKING = 2
    """The host waits for this execution (`NEURON_LAUNCH_BLOCKING=1`, `item()`)."""
    MUTATES = 4
    SHAPES_ONLY = 8
    """No values were computed."""


LOG_DTYPE: Final = np.dtype(
    [
        ("enter_ns", "<i8"),  # host, Unix ns: the dispatch begins
        ("exit_ns", "<i8"),  # host, Unix ns: the dispatch ends (values are computed in between)
        ("op_id", "<i8"),  # counts up from 0 in the process
        ("correlation", "<u8"),  # torch's correlation id of the enclosing CPU op, 0 when not profiled
        ("seq_nr", "<i8"),  # autograd sequence number, -1 when there is none
        ("aux", "<i8"),  # per kind: bytes, event id, mark number
        ("signature", "<u4"),  # interned op signature: what is lowered to a program
        ("tensors", "<u4"),  # index of the first TENSOR_REF of this record
        ("stack", "<u4"),  # interned Python stack, 0 = not asked for
        ("module", "<u4"),  # interned module path, 0 = none or not asked for
        ("thread", "<u4"),  # system thread id
        ("graph_task", "<i4"),  # autograd graph task, -1 outside of backward
        ("device", "<i2"),
        ("stream", "<i2"),
        ("kind", "u1"),
        ("phase", "u1"),
        ("origin", "u1"),
        ("flags", "u1"),
        ("n_inputs", "u1"),  # neuron tensors among the arguments (at most 255 are referenced)
        ("n_outputs", "u1"),
        ("_pad", "V6"),
    ]
)
"""88 bytes + 8 per referenced tensor storage."""

TENSOR_REF_DTYPE: Final = np.dtype([("storage", "<u8")])
"""Storage ids, inputs then outputs, of a record: `refs[r.tensors : r.tensors + r.n_inputs + r.n_outputs]`.
A storage id is unique in the process and never used again. Shapes, strides, dtypes, offsets and the other details of
an op are part of its signature."""


MEMORY_EVENT_DTYPE: Final = np.dtype(
    {
        "names": [
            "time_ns",  # host, Unix ns; 0 for a storage that existed before the log was switched on
            "storage",  # id, never used again in the process
            "address",  # virtual HBM address, 0 for an empty storage
            "bytes",  # requested
            "block_bytes",  # after rounding to a size class
            "allocated_bytes",  # of the device, after the event
            "reserved_bytes",  # of the device, after the event
            "device",
            "is_free",  # 1 when the storage is freed, 0 when it is allocated
        ],
        "formats": ["<i8", "<u8", "<u8", "<i8", "<i8", "<i8", "<i8", "<i2", "u1"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56, 58],
        "itemsize": 64,
    }
)
"""Allocations and frees of device memory. Mirrors the C++ struct `trnscope::MemoryEvent` (a test compares the two)."""
