"""Reading chrome traces: torch.profiler's of every vendor, and plain ones.

The document is walked in windows; the scanner turns each window into one row of numbers per event, and whole columns
go to Parquet. Only what is rare (metadata, counters, malformed events) is handled as Python objects. Begin/end and
async events are set aside and paired afterwards (`trnscope.store.pairing`), because their partners may lie anywhere.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trnscope.schema.columns import Column, Table
from trnscope.schema.events import (
    CATEGORY_KINDS,
    DEVICE_KINDS,
    FLOW_POINT,
    INSTANT,
    RAW_EVENT,
    SLICE,
    SLICE_ID_BITS,
    SLICE_KINDS,
    TRACE_METADATA,
)
from trnscope.store.counters import write_counter
from trnscope.store.json_document import JsonDocument, metadata_value
from trnscope.store.json_repair import find_event_end, repair
from trnscope.store.json_scan import (
    MAX_DEPTH,
    N_FIELDS,
    NULL,
    EventFlag,
    Field,
    Status,
    scan_events,
)
from trnscope.store.json_spans import gather_spans, intern_spans
from trnscope.store.quality import Quality, RepairFlag
from trnscope.store.simd import PADDING
from trnscope.store.table_files import TableSet, dictionary, integers
from trnscope.store.tracks import TrackRegistry

Int64s = npt.NDArray[np.int64]

PHASE_EVENT: Final = Table(
    "PhaseEvent",
    "Begin, end and async events waiting for their partners; gone when the import is done.",
    (
        Column("event_id", "int64", "unique"),
        Column("track_id", "int64", "track"),
        Column("phase", "string", "B E b e S F"),
        Column("name", "string", "name", required=False),
        Column("category", "string", "category", required=False),
        Column("flow", "string", "async id", required=False),
        Column("timestamp_ns", "int64", "when", "ns"),
        Column("repairs", "int64", "RepairFlag bits"),
        Column("args", "string", "JSON", required=False),
    ),
)

ROWS_PER_BATCH: Final = 1 << 16
_KIND_CODE: Final = {kind: code for code, kind in enumerate(SLICE_KINDS)}
_DEVICE_CODES: Final = tuple(_KIND_CODE[kind] for kind in DEVICE_KINDS)
_TEXT_LIMIT: Final = 1 << 16
_TORCH_KEYS: Final = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "traceName", "with_stack"})
_ASYNC: Final = "beSF"
_INSTANT: Final = "iIRnTp"
_FLOW: Final = "stf"


@dataclass(slots=True)
class ChromeFacts:
    """What a chrome trace says about itself."""

    events: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    torch: bool = False
    start_ns: int | None = None
    end_ns: int | None = None


class ChromeReader:
    """Reads one document into the tables of one source."""

    def __init__(
        self,
        source_id: int,
        tables: TableSet,
        tracks: TrackRegistry,
        quality: Quality,
        progress: Callable[[int], None] = lambda _bytes: None,
    ) -> None:
        self._source_id = source_id
        self._tables = tables
        self._tracks = tracks
        self._quality = quality
        self._progress = progress
        self.facts = ChromeFacts()
        self._rows = np.empty((ROWS_PER_BATCH, N_FIELDS), np.int64)
        self._stack = np.zeros(MAX_DEPTH, np.uint8)
        self._first_id = source_id << SLICE_ID_BITS

    def read(self, document: JsonDocument) -> None:
        """Read the whole document."""
        if document.open() == "[":
            self._events(document)
            return
        while (key := document.next_key()) is not None:
            if key == "traceEvents" and document.peek() == ord("["):
                document.position += 1
                self._events(document)
            else:
                offset = document.offset
                text, value = metadata_value(document.capture(), self._quality, f"byte {offset}, key {key}")
                if len(text) < _TEXT_LIMIT:
                    self.facts.metadata[key] = value
                self._tables[TRACE_METADATA].write_rows([{"source_id": self._source_id, "key": key, "value": text}])
                self.facts.torch |= key in _TORCH_KEYS

    def _events(self, document: JsonDocument) -> None:
        while True:
            count, position, status = scan_events(
                document.buffer, document.position, document.end, self._rows, self._stack
            )
            if count:
                self._batch(document.buffer, self._rows[:count], document.base, 0)
            document.position = int(position)
            self._progress(document.offset)
            match status:
                case Status.END:
                    document.position += 1
                    return
                case Status.FULL:
                    continue
                case Status.MORE:
                    if not document.fill():
                        self._tail(document)
                        return
                case Status.STRAY:
                    if not self._stray(document):
                        return
                case _:
                    if not self._malformed(document):
                        return

    def _tail(self, document: JsonDocument) -> None:
        """The document ends inside the array."""
        rest = document.text(document.position, document.end)
        if not document.exhausted:
            self._raw("unreadable-event", document.offset, rest[:_TEXT_LIMIT])
            self._quality.add("unreadable-event", f"byte {document.offset}: larger than the window")
            document.position = document.end
            if document.fill():
                self._resync(document)
            return
        document.report_truncation()
        if rest.strip():
            self._raw("truncated", document.offset, rest)
        document.position = document.end

    def _resync(self, document: JsonDocument) -> None:
        if self._skip_to_event(document):
            self._events(document)

    def _stray(self, document: JsonDocument) -> bool:
        """Something that begins no object: keep it as text and go to the next event."""
        offset, start = document.offset, document.position
        if document.buffer[start] == ord("}") and document.text(start + 1, document.end).strip(b" \r\n\t\0") == b"":
            # the array's bracket is missing at the very end of the document
            if document.fill():
                return True
            document.report_truncation()
            document.position = document.end
            return False
        sample = document.text(start, min(start + 60, document.end))
        self._quality.add("stray-content", f"byte {offset}: {sample!r}")
        self._raw("stray-content", offset, sample)
        document.position += 1
        return self._skip_to_event(document)

    def _skip_to_event(self, document: JsonDocument) -> bool:
        while True:
            text = document.text(document.position, document.end)
            found = text.find(b"{")
            if found >= 0:
                document.position += found
                return True
            document.position = document.end
            if not document.fill():
                document.report_truncation()
                return False

    def _malformed(self, document: JsonDocument) -> bool:
        """An event that is no strict JSON: mend it, or keep it as text."""
        while True:
            text = document.text(document.position, document.end)
            stop = find_event_end(text, 0)
            if stop >= 0:
                break
            if not document.fill():
                stop = len(text)
                break
        offset = document.offset
        piece = text[:stop]
        decoded = piece.decode("utf-8", "replace")
        mended = repair(decoded)
        at_end = stop == len(text) and document.exhausted
        if mended is None and at_end and not piece.rstrip(b"]} \r\n\t").endswith(b"}"):
            closing = decoded.rfind("]")
            mended = repair(decoded[:closing]) if closing > 0 else None
        document.position += stop
        if mended is not None and self._mended(mended, offset):
            if self._quality.wants_example("rewritten-event"):
                self._quality.add("rewritten-event", f"byte {offset}: {decoded[:120]}")
            else:
                self._quality.add("rewritten-event")
            if b"\xef\xbf\xbd" not in piece and "�" in decoded:
                self._quality.add("invalid-utf8", f"byte {offset}")
        else:
            kind = "truncated" if at_end else "unreadable-event"
            if at_end:
                document.report_truncation()
            else:
                self._quality.add(kind, f"byte {offset}: {decoded[:120]}")
            self._raw(kind, offset, piece)
        return True

    def _mended(self, text: str, offset: int) -> bool:
        data = text.encode("utf-8", "replace")
        buffer = np.zeros(len(data) + 1 + PADDING, np.uint8)
        buffer[: len(data)] = np.frombuffer(data, np.uint8)
        buffer[len(data)] = ord("]")
        rows = np.empty((1, N_FIELDS), np.int64)
        count, position, _status = scan_events(buffer, 0, len(data) + 1, rows, self._stack)
        if count != 1 or buffer[position] != ord("]"):
            return False
        self._batch(buffer, rows, offset, RepairFlag.REWRITTEN)
        return True

    # ---- one batch of scanned events ----

    def _batch(self, buffer: npt.NDArray[np.uint8], rows: Int64s, base: int, repairs: int) -> None:
        rows = self._checked_utf8(buffer, rows, base)
        n = len(rows)
        event_ids = self._first_id + self.facts.events + np.arange(n, dtype=np.int64)
        self.facts.events += n
        batch = _Batch(buffer, rows, base, event_ids)
        flags = rows[:, Field.FLAGS]
        phase = rows[:, Field.PHASE]
        is_metadata = phase == ord("M")
        if (flags & (EventFlag.TS_BAD | EventFlag.DUR_BAD)).any():
            self._slow_times(batch)
        placed = (rows[:, Field.TS] != NULL) | is_metadata
        for i in np.flatnonzero(~placed):
            self._reject(batch, int(i), "no-timestamp")
        self._count_flags(batch)
        slices = placed & (phase == ord("X"))
        others = np.flatnonzero(placed & ~slices)
        on_tracks = np.flatnonzero(placed & ~is_metadata & (phase != ord("C")))
        batch.track = self._track_ids(batch, on_tracks)
        if slices.any():
            self._slices(batch, np.flatnonzero(slices), repairs)
        if len(others):
            self._others(batch, others, repairs)

    def _checked_utf8(self, buffer: npt.NDArray[np.uint8], rows: Int64s, base: int) -> Int64s:
        """Events with invalid UTF-8 are mended apart; returns the rows that are fine, in order."""
        suspects = np.flatnonzero(rows[:, Field.FLAGS] & EventFlag.HIGH)
        if not len(suspects):
            return rows
        first, last = int(rows[suspects[0], Field.START]), int(rows[suspects[-1], Field.STOP])
        try:
            buffer[first:last].tobytes().decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return rows
        done = 0
        for i in suspects:
            start, stop = int(rows[i, Field.START]), int(rows[i, Field.STOP])
            piece = buffer[start:stop].tobytes()
            try:
                piece.decode("utf-8")
                continue
            except UnicodeDecodeError:
                text = piece.decode("utf-8", "replace")
            if i > done:
                self._batch(buffer, rows[done:i], base, 0)
            done = int(i) + 1
            self._quality.add("invalid-utf8", f"byte {base + start}: {text[:120]}")
            self._mended(text, base + start)
        return rows[done:]

    def _slow_times(self, batch: "_Batch") -> None:
        """Times that are no plain decimals: exponents are exact in Decimal, everything else is none."""
        flags = batch.rows[:, Field.FLAGS]
        for i in np.flatnonzero(flags & (EventFlag.TS_BAD | EventFlag.DUR_BAD)):
            event = batch.load(int(i))
            for key, column, bad in (("ts", Field.TS, EventFlag.TS_BAD), ("dur", Field.DUR, EventFlag.DUR_BAD)):
                if flags[i] & bad:
                    value = _exact_ns(event.get(key))
                    if value is not None:
                        batch.rows[i, column] = value

    def _count_flags(self, batch: "_Batch") -> None:
        flags = batch.rows[:, Field.FLAGS]
        for bits, kind in (
            (EventFlag.TS_TEXT | EventFlag.DUR_TEXT, "text-time"),
            (EventFlag.ROUNDED, "rounded-time"),
            (EventFlag.BAD_LINK, "bad-link-id"),
        ):
            hits = np.flatnonzero(flags & bits)
            if len(hits):
                self._quality.add(kind, batch.where(int(hits[0])), len(hits))

    def _track_ids(self, batch: "_Batch", selected: Int64s) -> Int64s:
        """Track id per row; async events and counters get theirs later."""
        ids = np.full(len(batch.rows), -1, np.int64)
        if not len(selected):
            return ids
        pid_index, pids = batch.intern(Field.PID_S, selected)
        tid_index, tids = batch.intern(Field.TID_S, selected)
        width = len(tids) + 1
        pairs = (pid_index + 1) * width + (tid_index + 1)
        for pair in np.unique(pairs):
            p, t = divmod(int(pair), width)
            track = self._tracks.track(pids[p - 1] if p else "", tids[t - 1] if t else "")
            ids[selected[pairs == pair]] = track.track_id
        return ids

    def _slices(self, batch: "_Batch", selected: Int64s, repairs: int) -> None:
        rows = batch.rows[selected]
        names, name_texts = batch.intern(Field.NAME_S, selected)
        categories, category_texts = batch.intern(Field.CAT_S, selected)
        kind_of = np.array(
            [_KIND_CODE[CATEGORY_KINDS.get(text.lower(), "other")] for text in category_texts] + [0], np.int64
        )
        kinds = kind_of[categories]
        self.facts.torch |= bool(kind_of.any())
        start = rows[:, Field.TS]
        duration = rows[:, Field.DUR].copy()
        flags = rows[:, Field.FLAGS]
        marks = np.full(len(rows), repairs, np.int64)
        marks[(flags & (EventFlag.TS_TEXT | EventFlag.DUR_TEXT)) != 0] |= RepairFlag.TEXT_TIME
        marks[(flags & EventFlag.ROUNDED) != 0] |= RepairFlag.ROUNDED
        missing = duration == NULL
        unfinished = duration == -1000
        negative = (duration < 0) & ~missing & ~unfinished
        for mask, flag, issue in (
            (missing, RepairFlag.MISSING_DURATION, "missing-duration"),
            (unfinished, RepairFlag.UNFINISHED, "unfinished-slice"),
            (negative, RepairFlag.NEGATIVE_DURATION, "negative-duration"),
        ):
            if mask.any():
                marks[mask] |= flag
                duration[mask] = 0
                self._quality.add(issue, batch.where(int(selected[mask.argmax()])), int(mask.sum()))
        tracks = batch.track[selected]
        self._mark_streams(rows, tracks, kinds)
        self._window(tracks, start, start + duration)
        self._tables[SLICE].write(
            {
                "slice_id": integers(batch.event_ids[selected]),
                "source_id": integers(np.full(len(rows), self._source_id, np.int64)),
                "track_id": integers(tracks),
                "name": dictionary(np.where(names < 0, len(name_texts), names), [*name_texts, ""]),
                "category": dictionary(categories, category_texts),
                "kind": dictionary(kinds, SLICE_KINDS),
                "start_ns": integers(start),
                "duration_ns": integers(duration),
                "correlation": integers(rows[:, Field.CORRELATION], NULL),
                "external_id": integers(rows[:, Field.EXTERNAL_ID], NULL),
                "sequence_number": integers(rows[:, Field.SEQUENCE], NULL),
                "forward_thread": integers(rows[:, Field.FORWARD_THREAD], NULL),
                "device": integers(rows[:, Field.DEVICE], NULL),
                "stream": integers(rows[:, Field.STREAM], NULL),
                "repairs": integers(marks),
                "args": batch.args(selected),
            }
        )

    def _mark_streams(self, rows: Int64s, tracks: Int64s, kinds: Int64s) -> None:
        on_device = np.isin(kinds, _DEVICE_CODES)
        if not on_device.any():
            return
        for track_id in np.unique(tracks[on_device]):
            track = self._tracks.by_id(int(track_id))
            if track.kind != "stream":
                row = rows[int((on_device & (tracks == track_id)).argmax())]
                device, stream = int(row[Field.DEVICE]), int(row[Field.STREAM])
                self._tracks.mark_stream(track, None if device == NULL else device, None if stream == NULL else stream)

    def _window(self, tracks: Int64s, start: Int64s, end: Int64s) -> None:
        low, high = int(start.min()), int(end.max())
        facts = self.facts
        facts.start_ns = low if facts.start_ns is None else min(low, facts.start_ns)
        facts.end_ns = high if facts.end_ns is None else max(high, facts.end_ns)
        for track_id in np.unique(tracks):
            track = self._tracks.by_id(int(track_id))
            track.last_ns = max(track.last_ns, int(end[tracks == track_id].max()))

    def _others(self, batch: "_Batch", selected: Int64s, repairs: int) -> None:
        phases = batch.rows[selected, Field.PHASE]
        for phase in np.unique(phases):
            chosen = selected[phases == phase]
            letter = chr(phase) if phase else ""
            if letter in _FLOW and letter:
                self._flow_points(batch, chosen)
            elif letter in _INSTANT and letter:
                self._instants(batch, chosen)
            elif letter in "BE" + _ASYNC and letter:
                self._phase_events(batch, chosen, repairs)
            elif letter == "M":
                for i in chosen:
                    self._metadata(batch, int(i))
            elif letter == "C":
                times = batch.rows[chosen, Field.TS]
                self._window(np.empty(0, np.int64), times, times)
                for i in chosen:
                    write_counter(
                        self._tables,
                        self._tracks,
                        self._quality,
                        int(batch.event_ids[i]),
                        int(batch.rows[i, Field.TS]),
                        batch.load(int(i)),
                    )
            else:
                for i in chosen:
                    self._reject(batch, int(i), "unknown-phase")

    def _common(self, batch: "_Batch", selected: Int64s, id_column: str = "event_id") -> dict[str, pa.Array]:
        names, name_texts = batch.intern(Field.NAME_S, selected)
        categories, category_texts = batch.intern(Field.CAT_S, selected)
        return {
            id_column: integers(batch.event_ids[selected]),
            "source_id": integers(np.full(len(selected), self._source_id, np.int64)),
            "track_id": integers(batch.track[selected]),
            "name": dictionary(np.where(names < 0, len(name_texts), names), [*name_texts, ""]),
            "category": dictionary(categories, category_texts),
            "timestamp_ns": integers(batch.rows[selected, Field.TS]),
        }

    def _flow_points(self, batch: "_Batch", selected: Int64s) -> None:
        columns = self._common(batch, selected)
        columns["phase"] = dictionary(
            np.searchsorted(np.array([ord("f"), ord("s"), ord("t")]), batch.rows[selected, Field.PHASE]),
            ["f", "s", "t"],
        )
        columns["flow"] = batch.texts(Field.ID_S, selected)
        self._tables[FLOW_POINT].write(columns)

    def _instants(self, batch: "_Batch", selected: Int64s) -> None:
        columns = self._common(batch, selected)
        scopes = batch.rows[selected, Field.SCOPE]
        letters = sorted({int(s) for s in scopes if s})
        where = np.searchsorted(np.array(letters, np.int64), scopes)
        columns["scope"] = dictionary(np.where(scopes > 0, where, -1), [chr(s) for s in letters])
        columns["args"] = batch.args(selected)
        self._window(batch.track[selected], batch.rows[selected, Field.TS], batch.rows[selected, Field.TS])
        self._tables[INSTANT].write(columns)

    def _phase_events(self, batch: "_Batch", selected: Int64s, repairs: int) -> None:
        columns = self._common(batch, selected)
        del columns["source_id"]
        letters = [chr(p) for p in batch.rows[selected, Field.PHASE]]
        columns["phase"] = pa.array(letters).dictionary_encode()
        columns["flow"] = batch.texts(Field.ID_S, selected)
        columns["repairs"] = integers(np.full(len(selected), repairs, np.int64))
        columns["args"] = batch.args(selected)
        self._window(batch.track[selected], batch.rows[selected, Field.TS], batch.rows[selected, Field.TS])
        self._tables[PHASE_EVENT].write(columns)

    def _metadata(self, batch: "_Batch", index: int) -> None:
        event = batch.load(index)
        name = str(event.get("name", ""))
        args = event.get("args")
        pid, tid = as_text(event.get("pid")), as_text(event.get("tid"))
        if isinstance(args, dict) and self._tracks.apply_metadata(name, pid, tid, args):
            return
        value = {"pid": pid, "tid": tid, "args": args}
        self._tables[TRACE_METADATA].write_rows(
            [{"source_id": self._source_id, "key": f"event:{name}", "value": json.dumps(value)}]
        )

    def _reject(self, batch: "_Batch", index: int, reason: str) -> None:
        self._quality.add(reason, batch.where(index))
        self._raw(reason, batch.offset(index), batch.event_bytes(index), int(batch.event_ids[index]))

    def _raw(self, reason: str, offset: int, data: bytes, event_id: int | None = None) -> None:
        if event_id is None:
            event_id = self._first_id + self.facts.events
            self.facts.events += 1
        self._tables[RAW_EVENT].write_rows(
            [
                {
                    "event_id": event_id,
                    "source_id": self._source_id,
                    "reason": reason,
                    "byte_offset": offset,
                    "text": data[:_TEXT_LIMIT].decode("utf-8", "replace"),
                }
            ]
        )


@dataclass(slots=True)
class _Batch:
    """Scanned events with the buffer that their texts lie in."""

    buffer: npt.NDArray[np.uint8]
    rows: Int64s
    base: int
    event_ids: Int64s
    track: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def event_bytes(self, index: int) -> bytes:
        return self.buffer[self.rows[index, Field.START] : self.rows[index, Field.STOP]].tobytes()

    def load(self, index: int) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.event_bytes(index))
        return event

    def offset(self, index: int) -> int:
        return self.base + int(self.rows[index, Field.START])

    def where(self, index: int) -> str:
        text = self.event_bytes(index).decode("utf-8", "replace")
        return f"byte {self.offset(index)}: {' '.join(text.split())[:140]}"

    def intern(self, start_column: int, selected: Int64s) -> tuple[Int64s, list[str]]:
        """Index per selected row (-1: none) and the distinct texts of a field."""
        starts = np.ascontiguousarray(self.rows[selected, start_column])
        stops = np.ascontiguousarray(self.rows[selected, start_column + 1])
        ids = np.empty(len(selected), np.int64)
        table = np.full(1 << (2 * len(selected) + 1).bit_length(), -1, np.int64)
        first = intern_spans(self.buffer, starts, stops, ids, table)
        return ids, [_literal_text(self.buffer[starts[i] : stops[i]].tobytes()) for i in first]

    def texts(self, start_column: int, selected: Int64s) -> pa.Array:
        """A field as text, quotes taken off; missing where absent."""
        starts = np.ascontiguousarray(self.rows[selected, start_column])
        stops = np.ascontiguousarray(self.rows[selected, start_column + 1])
        quoted = (starts >= 0) & (self.buffer[starts] == ord('"'))
        plain = self._strings(starts + quoted, stops - quoted, starts >= 0)
        if not pc.any(pc.match_substring(plain, "\\")).as_py():
            return plain
        literals = zip(plain.to_pylist(), quoted.tolist(), strict=True)
        return pa.array(
            [_literal_text(f'"{t}"'.encode()) if in_quotes and t is not None else t for t, in_quotes in literals]
        )

    def args(self, selected: Int64s) -> pa.Array:
        """Arguments as JSON text; keys of the event that have no column are added under `event`."""
        starts = np.ascontiguousarray(self.rows[selected, Field.ARGS_S])
        stops = np.ascontiguousarray(self.rows[selected, Field.ARGS_E])
        plain = self._strings(starts, stops, starts >= 0)
        extra = np.flatnonzero(self.rows[selected, Field.FLAGS] & EventFlag.EXTRA)
        if not len(extra):
            return plain
        texts = plain.to_pylist()
        for i in extra:
            event = self.load(int(selected[i]))
            others = {key: value for key, value in event.items() if key not in _KNOWN_KEYS}
            args = event.get("args")
            texts[i] = json.dumps({**(args if isinstance(args, dict) else {"args": args}), "event": others})
        return pa.array(texts, pa.string())

    def _strings(self, starts: Int64s, stops: Int64s, present: npt.NDArray[np.bool_]) -> pa.Array:
        offsets, data = gather_spans(self.buffer, np.where(present, starts, -1), stops)
        validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
        return pa.Array.from_buffers(pa.string(), len(starts), [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


_KNOWN_KEYS: Final = frozenset({"ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "id", "bp", "s"})


def _literal_text(literal: bytes) -> str:
    """The text of a JSON scalar: a string's content, anything else as written."""
    if literal[:1] != b'"':
        return literal.decode("utf-8", "replace")
    if b"\\" in literal:
        # lone surrogates are valid JSON escapes but no text
        return str(json.loads(literal)).encode("utf-8", "replace").decode("utf-8")
    return literal[1:-1].decode("utf-8", "replace")


def as_text(value: Any) -> str:
    """A pid or tid as text, as `_literal_text` gives it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(value)


def _exact_ns(value: Any) -> int | None:
    """Microseconds in any notation as integer nanoseconds; None for what is no time."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        exact = Decimal(str(value)) * 1000
        if not exact.is_finite() or abs(exact) >= 2**62:
            return None
        return int(exact.to_integral_value())
    except (InvalidOperation, OverflowError):
        return None
