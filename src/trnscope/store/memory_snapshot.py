"""Reading memory snapshots of PyTorch's caching allocator.

A snapshot is a pickle. It is read by an unpickler that builds nothing but containers, numbers and texts: a pickle
that asks for any class or function is refused, so that opening a file cannot run code.
"""

import json
import pickle
from io import BytesIO
from typing import Any, Final

from trnscope.errors import TrnscopeError
from trnscope.schema.columns import Column, Table
from trnscope.schema.events import COUNTER, SLICE_ID_BITS
from trnscope.store.byte_source import open_bytes
from trnscope.store.source import SourceContext, SourceFacts

_LIMIT_BYTES: Final = 2 << 30
_PIECE: Final = 8 << 20


def _column(name: str, kind: str, doc: str, unit: str | None = None) -> Column:
    return Column(name, kind, doc, unit, required=False)


MEMORY_SEGMENT: Final = Table(
    "MemorySegment",
    "Memory that the allocator holds from the device.",
    (
        _column("device", "int64", "device"),
        _column("address", "int64", "start"),
        _column("total_bytes", "int64", "size", "bytes"),
        _column("allocated_bytes", "int64", "in use by tensors", "bytes"),
        _column("active_bytes", "int64", "in use or waiting for a stream", "bytes"),
        _column("stream", "int64", "stream it belongs to"),
        _column("segment_type", "string", "small or large"),
    ),
)

MEMORY_BLOCK: Final = Table(
    "MemoryBlock",
    "Pieces of segments.",
    (
        _column("device", "int64", "device"),
        _column("segment_address", "int64", "segment it lies in"),
        _column("address", "int64", "start"),
        _column("size_bytes", "int64", "size", "bytes"),
        _column("requested_bytes", "int64", "size that was asked for", "bytes"),
        _column("state", "string", "active_allocated, active_pending_free or inactive"),
        _column("frames", "string", "Python stack of the allocation as JSON"),
    ),
)

MEMORY_EVENT: Final = Table(
    "MemoryEvent",
    "What the allocator did, in order.",
    (
        _column("event_id", "int64", "unique in the import"),
        _column("device", "int64", "device"),
        _column("action", "string", "alloc, free_requested, free_completed, segment_alloc, oom, ..."),
        _column("address", "int64", "address"),
        _column("size_bytes", "int64", "size", "bytes"),
        _column("stream", "int64", "stream"),
        _column("timestamp_ns", "int64", "when, where the snapshot says", "ns"),
        _column("frames", "string", "Python stack as JSON"),
    ),
)


class _Containers(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        raise TrnscopeError(
            f"the pickle asks for {module_name}.{global_name}; a memory snapshot holds plain data only",
            "the file is no memory snapshot, or is not safe to open",
        )


def import_memory_snapshot(context: SourceContext) -> SourceFacts:
    """Read one snapshot, pickle or JSON."""
    snapshot = _load(context)
    facts = SourceFacts("memory-snapshot", framework="torch")
    segments = snapshot.get("segments") if isinstance(snapshot, dict) else snapshot
    if not isinstance(segments, list):
        raise TrnscopeError("no memory snapshot: it has no list of segments", "make one with torch's _snapshot()")
    for segment in segments:
        _segment(context, segment)
    facts.events += len(segments)
    traces = snapshot.get("device_traces", []) if isinstance(snapshot, dict) else []
    next_id = context.source_id << SLICE_ID_BITS
    for device, trace in enumerate(traces):
        next_id = _trace(context, device, trace, next_id, facts)
    return facts


def _load(context: SourceContext) -> Any:
    pieces = []
    total = 0
    with open_bytes(context.path) as reader:
        while piece := reader.read(_PIECE):
            pieces.append(piece)
            total += len(piece)
            context.progress(total)
            if total > _LIMIT_BYTES:
                raise TrnscopeError(f"larger than {_LIMIT_BYTES} bytes", "record fewer allocator events")
        if reader.damage is not None:
            context.quality.add(reader.damage)
    data = b"".join(pieces)
    try:
        if data[:1] == b"\x80":
            return _Containers(BytesIO(data)).load()
        return json.loads(data)
    except TrnscopeError:
        raise
    except Exception as error:  # damaged pickles raise anything
        raise TrnscopeError(f"unreadable memory snapshot: {error}", "record it again") from None


def _segment(context: SourceContext, segment: dict[str, Any]) -> None:
    context.tables[MEMORY_SEGMENT].write_rows(
        [
            {
                "device": segment.get("device"),
                "address": segment.get("address"),
                "total_bytes": segment.get("total_size"),
                "allocated_bytes": segment.get("allocated_size"),
                "active_bytes": segment.get("active_size"),
                "stream": segment.get("stream"),
                "segment_type": segment.get("segment_type"),
            }
        ]
    )
    address = segment.get("address")
    blocks = []
    for block in segment.get("blocks", []):
        blocks.append(
            {
                "device": segment.get("device"),
                "segment_address": segment.get("address"),
                "address": block.get("address", address),
                "size_bytes": block.get("size"),
                "requested_bytes": block.get("requested_size"),
                "state": block.get("state"),
                "frames": json.dumps(block.get("frames") or _history(block)),
            }
        )
        # older snapshots leave block addresses out: blocks lie one behind the other
        if address is not None:
            address = blocks[-1]["address"] + (block.get("size") or 0)
    context.tables[MEMORY_BLOCK].write_rows(blocks)


def _history(block: dict[str, Any]) -> list[Any]:
    history = block.get("history") or [{}]
    frames: list[Any] = history[0].get("frames", [])
    return frames


def _trace(context: SourceContext, device: int, trace: list[dict[str, Any]], next_id: int, facts: SourceFacts) -> int:
    track = context.tracks.track(f"device {device}", "allocated_bytes", "counter")
    track.name = "allocated_bytes"
    allocated = 0
    events, samples = [], []
    for event in trace:
        time_us = event.get("time_us")
        at = time_us * 1000 if isinstance(time_us, int) else None
        size = event.get("size") or 0
        events.append(
            {
                "event_id": next_id,
                "device": device,
                "action": event.get("action"),
                "address": event.get("addr"),
                "size_bytes": event.get("size"),
                "stream": event.get("stream"),
                "timestamp_ns": at,
                "frames": json.dumps(event.get("frames") or []),
            }
        )
        if event.get("action") in ("alloc", "free_completed"):
            allocated += size if event["action"] == "alloc" else -size
            if at is not None:
                samples.append(
                    {
                        "event_id": next_id,
                        "source_id": context.source_id,
                        "track_id": track.track_id,
                        "name": "allocated_bytes",
                        "series": "since start of recording",
                        "timestamp_ns": at,
                        "value": float(allocated),
                    }
                )
                facts.start_ns = at if facts.start_ns is None else min(at, facts.start_ns)
                facts.end_ns = at if facts.end_ns is None else max(at, facts.end_ns)
        next_id += 1
    context.tables[MEMORY_EVENT].write_rows(events)
    context.tables[COUNTER].write_rows(samples)
    facts.events += len(events)
    return next_id
