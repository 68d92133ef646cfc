"""An import as a Perfetto protobuf trace: tracks with lanes, slices with arguments, counters, instants and flows.

Field numbers are those of Perfetto's published `trace_packet.proto`, `track_event.proto`, `track_descriptor.proto`,
`process_descriptor.proto`, `counter_descriptor.proto` and `debug_annotation.proto`. A lane becomes a child track, so
that crossing slices stay apart: within a lane every two slices nest or are disjoint, which is what the format demands.
"""

import json
from pathlib import Path
from typing import Any, BinaryIO, Final

from trnscope.store.protobuf import block, double, fixed64, integer, text
from trnscope.store.trace import Trace

# TracePacket
_TIMESTAMP, _SEQUENCE_ID, _TRACK_EVENT, _SEQUENCE_FLAGS, _TRACK_DESCRIPTOR = 8, 10, 11, 13, 60
_INCREMENTAL_STATE_CLEARED: Final = 1
_SEQUENCE: Final = 1
# TrackDescriptor
_UUID, _NAME, _PROCESS, _PARENT_UUID, _COUNTER = 1, 2, 3, 5, 8
# ProcessDescriptor
_PID, _PROCESS_NAME = 1, 6
# TrackEvent
_DEBUG_ANNOTATIONS, _TYPE, _TRACK_UUID, _CATEGORIES, _EVENT_NAME = 4, 9, 11, 22, 23
_DOUBLE_COUNTER_VALUE, _FLOW_IDS, _TERMINATING_FLOW_IDS = 44, 47, 48
_SLICE_BEGIN, _SLICE_END, _INSTANT, _COUNTER_SAMPLE = 1, 2, 3, 4
# DebugAnnotation
_INT_VALUE, _DOUBLE_VALUE, _STRING_VALUE, _JSON_VALUE, _ANNOTATION_NAME = 4, 5, 6, 9, 10

_BATCH: Final = 16384
_LANE_BITS: Final = 10
_PROCESS_SPACE: Final = 1 << 62


def export_perfetto(trace: Trace, out: Path) -> int:
    """Write the trace; returns the number of packets. Sources with a clock base are placed on Unix time."""
    with out.open("wb") as file:
        writer = _Writer(file)
        _descriptors(trace, writer)
        _slices(trace, writer)
        _points(trace, writer)
        return writer.packets


class _Writer:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.packets = 0

    def packet(self, content: bytes) -> None:
        flags = integer(_SEQUENCE_FLAGS, _INCREMENTAL_STATE_CLEARED) if self.packets == 0 else b""
        self._file.write(block(1, content + integer(_SEQUENCE_ID, _SEQUENCE) + flags))
        self.packets += 1

    def event(self, at_ns: int, kind: int, track: int, content: bytes = b"") -> None:
        body = integer(_TYPE, kind) + integer(_TRACK_UUID, track) + content
        self.packet(integer(_TIMESTAMP, at_ns) + block(_TRACK_EVENT, body))


def _track_uuid(track_id: int, lane: int) -> int:
    # 0 means the default track of a sequence
    return ((track_id + 1) << _LANE_BITS) + lane


def _descriptors(trace: Trace, writer: _Writer) -> None:
    processes = trace.sql(
        "SELECT process_id, coalesce(p.name, p.pid), s.rank, (SELECT count(*) FROM Source) "
        "FROM Process p JOIN Source s USING (source_id) ORDER BY process_id"
    ).fetchall()
    for number, (process_id, name, rank, sources) in enumerate(processes, 1):
        label = f"rank {rank}: {name}" if sources > 1 and rank is not None else name
        # pids of a trace may be texts, and ranks may share them: numbers of our own keep them apart
        process = integer(_PID, number) + text(_PROCESS_NAME, label)
        writer.packet(block(_TRACK_DESCRIPTOR, integer(_UUID, _PROCESS_SPACE + process_id) + block(_PROCESS, process)))
    tracks = trace.sql("SELECT track_id, process_id, coalesce(name, tid), kind, lanes FROM Track ORDER BY track_id")
    for track_id, process_id, name, kind, lanes in tracks.fetchall():
        for lane in range(lanes):
            label = name if lane == 0 else f"{name} (lane {lane})"
            body = integer(_UUID, _track_uuid(track_id, lane)) + integer(_PARENT_UUID, _PROCESS_SPACE + process_id)
            if kind != "counter":
                writer.packet(block(_TRACK_DESCRIPTOR, body + text(_NAME, label)))
    series = trace.sql(
        "SELECT track_id, process_id, name, series, row_number() OVER (ORDER BY track_id, series) FROM "
        "(SELECT DISTINCT c.track_id, t.process_id, c.name, c.series FROM Counter c JOIN Track t USING (track_id))"
    )
    for track_id, process_id, name, one, number in series.fetchall():
        body = integer(_UUID, _counter_uuid(number)) + integer(_PARENT_UUID, _PROCESS_SPACE + process_id)
        label = text(_NAME, name if one in ("value", name) else f"{name}.{one}")
        writer.packet(block(_TRACK_DESCRIPTOR, body + label + block(_COUNTER, b"")))
        for at, value in trace.stream(
            f"SELECT timestamp_ns + coalesce(base_time_ns, 0), value FROM Counter JOIN Source USING (source_id) "
            f"WHERE track_id = {track_id} AND series = '{one.replace(chr(39), chr(39) * 2)}' AND value IS NOT NULL "
            "ORDER BY 1",
            _BATCH,
        ):
            writer.event(at, _COUNTER_SAMPLE, _counter_uuid(number), double(_DOUBLE_COUNTER_VALUE, value))


def _counter_uuid(number: int) -> int:
    return (1 << 61) + number


def _slices(trace: Trace, writer: _Writer) -> None:
    """Begin and end packets in the order of each lane: an inner slice ends before its outer one."""
    query = """
        SELECT n.track_id, n.lane, n.start_ns + coalesce(base_time_ns, 0), n.duration_ns, s.name, s.category, s.args,
               flow.started, flow.finished
        FROM Nesting n JOIN Slice s USING (slice_id) JOIN Source ON Source.source_id = n.source_id
        LEFT JOIN (
            SELECT slice_id, list(flow) FILTER (phase <> 'f') AS started, list(flow) FILTER (phase = 'f') AS finished
            FROM (
                SELECT b.slice_id, p.phase, hash(p.source_id, p.category, p.name, p.flow) // 2 AS flow
                FROM PointBinding b JOIN FlowPoint p USING (event_id)
            ) GROUP BY slice_id
        ) flow USING (slice_id)
        ORDER BY n.track_id, n.lane, n.start_ns, n.depth
    """
    open_slices: list[tuple[int, int]] = []
    here = (-1, -1)
    for track_id, lane, start, duration, name, category, args, started, finished in trace.stream(query, _BATCH):
        uuid = _track_uuid(track_id, lane)
        if (track_id, lane) != here:
            _end(writer, open_slices, None)
            here = (track_id, lane)
        _end(writer, open_slices, start)
        content = text(_EVENT_NAME, name)
        if category is not None:
            content += text(_CATEGORIES, category)
        if args is not None:
            content += _annotations(args)
        content += b"".join(fixed64(_FLOW_IDS, flow) for flow in started or ())
        content += b"".join(fixed64(_TERMINATING_FLOW_IDS, flow) for flow in finished or ())
        writer.event(start, _SLICE_BEGIN, uuid, content)
        open_slices.append((start + duration, uuid))
    _end(writer, open_slices, None)


def _end(writer: _Writer, open_slices: list[tuple[int, int]], before: int | None) -> None:
    while open_slices and (before is None or open_slices[-1][0] <= before):
        end, uuid = open_slices.pop()
        writer.event(end, _SLICE_END, uuid)


def _points(trace: Trace, writer: _Writer) -> None:
    query = (
        "SELECT track_id, timestamp_ns + coalesce(base_time_ns, 0), name, category, args "
        "FROM Instant JOIN Source USING (source_id) ORDER BY 2"
    )
    for track_id, at, name, category, args in trace.stream(query, _BATCH):
        content = text(_EVENT_NAME, name)
        if category is not None:
            content += text(_CATEGORIES, category)
        writer.event(at, _INSTANT, _track_uuid(track_id, 0), content + (_annotations(args) if args else b""))


def _annotations(args: str) -> bytes:
    parsed: dict[str, Any] = json.loads(args)
    return b"".join(
        block(_DEBUG_ANNOTATIONS, text(_ANNOTATION_NAME, key) + _annotation(value)) for key, value in parsed.items()
    )


def _annotation(value: Any) -> bytes:
    if isinstance(value, str):
        return text(_STRING_VALUE, value)
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return integer(_INT_VALUE, value)
    if isinstance(value, float):
        return double(_DOUBLE_VALUE, value)
    return text(_JSON_VALUE, json.dumps(value))
