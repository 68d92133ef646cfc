"""Begin/end and async events to slices."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from trnscope.schema.events import CATEGORY_KINDS, RAW_EVENT, SLICE
from trnscope.store.chrome import PHASE_EVENT
from trnscope.store.engine import IMPORT_MEMORY, connect, path_literal
from trnscope.store.quality import Quality, RepairFlag
from trnscope.store.table_files import TableSet
from trnscope.store.tracks import TrackRegistry

_BATCH = 16384


class Pairing:
    """Pairs the set-aside events of one source.

    Within a thread an end closes the innermost open begin of its name, or the innermost one when it has no name; what
    lies above it stays without end. Async events pair within (process, category, id). A slice without end lasts until
    the last event of its thread (async: of the process' thread it began on) and is marked.
    """

    def __init__(self, source_id: int, tables: TableSet, tracks: TrackRegistry, quality: Quality) -> None:
        self._source_id = source_id
        self._tables = tables
        self._tracks = tracks
        self._quality = quality
        self._rows: list[dict[str, Any]] = []

    def run(self) -> None:
        """Pair everything that was set aside; the staging file is removed."""
        path = self._tables.directory / f"{PHASE_EVENT.name}.parquet"
        self._tables.close(PHASE_EVENT)
        if not path.exists():
            return
        self._threads(path)
        self._async(path)
        self._tables.discard(PHASE_EVENT)
        self._flush()

    def _sorted(self, path: Path, where: str, order: str) -> Iterator[dict[str, Any]]:
        with connect(IMPORT_MEMORY, spill=self._tables.directory / "spill", threads=1) as connection:
            reader = connection.sql(
                f"SELECT * FROM read_parquet({path_literal(path)}) WHERE {where} ORDER BY {order}"
            ).to_arrow_reader(_BATCH)
            for batch in reader:
                yield from pa.RecordBatch.to_pylist(batch)

    def _threads(self, path: Path) -> None:
        stack: list[dict[str, Any]] = []
        track_id = -1
        for event in self._sorted(path, "phase IN ('B', 'E')", "track_id, timestamp_ns, event_id"):
            if event["track_id"] != track_id:
                self._unfinished(stack)
                stack, track_id = [], event["track_id"]
            if event["phase"] == "B":
                stack.append(event)
                continue
            name = event["name"]
            depth = len(stack) - 1
            while depth >= 0 and name and stack[depth]["name"] != name:
                depth -= 1
            if depth < 0:
                self._unmatched(event)
                continue
            self._unfinished(stack[depth + 1 :])
            begin = stack[depth]
            del stack[depth:]
            self._emit(begin, event["timestamp_ns"], event)
        self._unfinished(stack)

    def _async(self, path: Path) -> None:
        key: tuple[Any, ...] = ()
        stack: list[dict[str, Any]] = []
        where = "phase IN ('b', 'e', 'S', 'F')"
        for event in self._sorted(path, where, "category, flow, track_id >> 32, timestamp_ns, event_id"):
            thread = self._tracks.by_id(event["track_id"])
            here = (thread.pid, event["category"], event["flow"])
            if here != key:
                self._unfinished(stack, is_async=True)
                stack, key = [], here
            if event["phase"] in "bS":
                stack.append(event)
                continue
            depth = len(stack) - 1
            while depth >= 0 and event["name"] and stack[depth]["name"] != event["name"]:
                depth -= 1
            if depth < 0:
                self._unmatched(event)
                continue
            begin = stack.pop(depth)
            self._emit(begin, event["timestamp_ns"], event, is_async=True)
        self._unfinished(stack, is_async=True)

    def _unfinished(self, events: list[dict[str, Any]], *, is_async: bool = False) -> None:
        for event in events:
            track = self._tracks.by_id(event["track_id"])
            event["repairs"] |= RepairFlag.UNFINISHED
            self._quality.add("unfinished-slice", f"{event['name']} at {event['timestamp_ns']} ns")
            self._emit(event, max(track.last_ns, event["timestamp_ns"]), None, is_async=is_async)

    def _unmatched(self, event: dict[str, Any]) -> None:
        text = f"{event['phase']} {event['name']} at {event['timestamp_ns']} ns"
        self._quality.add("unmatched-end", text)
        self._tables[RAW_EVENT].write_rows(
            [
                {
                    "event_id": event["event_id"],
                    "source_id": self._source_id,
                    "reason": "unmatched-end",
                    "byte_offset": -1,
                    "text": text,
                }
            ]
        )

    def _emit(self, begin: dict[str, Any], end_ns: int, end: dict[str, Any] | None, *, is_async: bool = False) -> None:
        track_id = begin["track_id"]
        if is_async:
            thread = self._tracks.by_id(track_id)
            track = self._tracks.track(thread.pid, f"{begin['category'] or ''}:{begin['name']}", "async")
            track.name = begin["name"]
            track_id = track.track_id
        args = begin["args"]
        if end is not None and end["args"] not in (None, "{}"):
            args = end["args"] if args in (None, "{}") else f'{args[:-1]},"end":{end["args"]}}}'
        self._rows.append(
            {
                "slice_id": begin["event_id"],
                "source_id": self._source_id,
                "track_id": track_id,
                "name": begin["name"],
                "category": begin["category"],
                "kind": CATEGORY_KINDS.get((begin["category"] or "").lower(), "other"),
                "start_ns": begin["timestamp_ns"],
                "duration_ns": end_ns - begin["timestamp_ns"],
                "repairs": int(begin["repairs"]),
                "args": args,
            }
        )
        if len(self._rows) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._tables[SLICE].write_rows(self._rows)
            self._rows = []
