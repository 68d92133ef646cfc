"""Processes and tracks of one source, numbered in order of appearance."""

import re
from dataclasses import dataclass
from typing import Any, Final

from trnscope.schema.events import PROCESS, TRACK, TRACK_ID_BITS
from trnscope.store.table_files import TableSet

_NO_TIME: Final = -(2**63)
_NUMBER_AT_END: Final = re.compile(r"(-?\d+)\s*$")


@dataclass(slots=True)
class _Process:
    process_id: int
    pid: str
    name: str | None = None
    labels: str | None = None
    sort_index: int | None = None


@dataclass(slots=True)
class Track:
    """What is known of a track so far."""

    track_id: int
    process_id: int
    pid: str
    tid: str
    kind: str = "thread"
    name: str | None = None
    device: int | None = None
    stream: int | None = None
    sort_index: int | None = None
    lanes: int = 1
    last_ns: int = _NO_TIME
    """Latest end seen, for what never ends."""


class TrackRegistry:
    """Hands out process and track ids and remembers names."""

    def __init__(self, source_id: int) -> None:
        self.source_id = source_id
        self._base = source_id << TRACK_ID_BITS
        self._processes: dict[str, _Process] = {}
        self._tracks: dict[tuple[str, str, str], Track] = {}
        self._by_id: dict[int, Track] = {}

    def process(self, pid: str) -> _Process:
        """The process of that name, new or known."""
        found = self._processes.get(pid)
        if found is None:
            found = self._processes[pid] = _Process(self._base + len(self._processes), pid)
        return found

    def track(self, pid: str, tid: str, kind: str = "thread") -> Track:
        """The track, new or known. Threads and streams share one name space; counters and async have their own."""
        space = kind if kind in ("counter", "async") else ""
        key = (space, pid, tid)
        found = self._tracks.get(key)
        if found is None:
            process = self.process(pid)
            found = Track(self._base + len(self._tracks), process.process_id, pid, tid, kind)
            self._tracks[key] = found
            self._by_id[found.track_id] = found
        return found

    def by_id(self, track_id: int) -> Track:
        """The track of that id."""
        return self._by_id[track_id]

    def mark_stream(self, track: Track, device: int | None, stream: int | None) -> None:
        """Device slices were seen there: it is a stream."""
        if track.kind == "stream":
            return
        track.kind = "stream"
        track.device = device if device is not None else _number(track.pid)
        track.stream = stream if stream is not None else _number(track.tid)

    def apply_metadata(self, name: str, pid: str, tid: str, args: dict[str, Any]) -> bool:
        """Take a metadata event; False when it has no column here."""
        match name:
            case "process_name":
                self.process(pid).name = _text(args.get("name"))
            case "process_labels":
                self.process(pid).labels = _text(args.get("labels"))
            case "process_sort_index":
                self.process(pid).sort_index = _integer(args.get("sort_index"))
            case "thread_name":
                self.track(pid, tid).name = _text(args.get("name"))
            case "thread_sort_index":
                self.track(pid, tid).sort_index = _integer(args.get("sort_index"))
            case _:
                return False
        return True

    def write(self, tables: TableSet) -> None:
        """The tables Process and Track."""
        tables[PROCESS].write_rows(
            [
                {
                    "process_id": p.process_id,
                    "source_id": self.source_id,
                    "pid": p.pid,
                    "name": p.name,
                    "labels": p.labels,
                    "sort_index": p.sort_index,
                }
                for p in self._processes.values()
            ]
        )
        tables[TRACK].write_rows(
            [
                {
                    "track_id": t.track_id,
                    "source_id": self.source_id,
                    "process_id": t.process_id,
                    "tid": t.tid,
                    "kind": t.kind,
                    "name": t.name,
                    "device": t.device,
                    "stream": t.stream,
                    "sort_index": t.sort_index,
                    "lanes": t.lanes,
                }
                for t in self._tracks.values()
            ]
        )
        tables.close(PROCESS, TRACK)


def _number(text: str) -> int | None:
    match = _NUMBER_AT_END.search(text)
    return _integer(match.group(1)) if match else None


def _integer(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(2**63) <= number < 2**63 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None if value is None else str(value)
