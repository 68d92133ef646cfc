"""What was repaired, dropped or found missing while importing."""

import json
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Final

MAX_EXAMPLES: Final = 5
_EXAMPLE_CHARS: Final = 200


class RepairFlag(IntFlag):
    """Bits of `Slice.repairs`: what was done to one slice."""

    NEGATIVE_DURATION = 1
    """The file gives a negative duration; it is taken as 0."""
    UNFINISHED = 2
    """No end: taken to last until the end of its track, or 0 where the file says -1."""
    MISSING_DURATION = 4
    """No duration, or one that is no number; taken as 0."""
    TEXT_TIME = 8
    """A time was given as text."""
    REWRITTEN = 16
    """The event was not valid JSON and was mended before reading."""
    ROUNDED = 32
    """A time had digits beyond nanoseconds."""


@dataclass(frozen=True, slots=True)
class Issue:
    """A kind of repair or gap: a sentence (formatted with the count), its severity, the figures that suffer."""

    sentence: str
    severity: str
    affects: str


ISSUES: Final = {
    "negative-duration": Issue(
        "{count} slices end before they start; their duration is taken as 0", "repaired", "time"
    ),
    "unfinished-slice": Issue("{count} slices have no end; see Slice.repairs", "repaired", "time"),
    "missing-duration": Issue("{count} complete events without a usable duration; taken as 0", "repaired", "time"),
    "text-time": Issue("{count} events give a time as text", "repaired", ""),
    "rounded-time": Issue("{count} times have digits beyond nanoseconds and are rounded", "repaired", ""),
    "unmatched-end": Issue("{count} end events have no begin event; kept in RawEvent", "dropped", "time"),
    "no-timestamp": Issue("{count} events have no usable timestamp; kept in RawEvent", "dropped", "time, counts"),
    "unknown-phase": Issue("{count} events of a phase without meaning here; kept in RawEvent", "dropped", ""),
    "rewritten-event": Issue("{count} events were not valid JSON and were mended", "repaired", "names"),
    "unreadable-event": Issue("{count} events could not be read; kept in RawEvent", "dropped", "time, counts"),
    "stray-content": Issue("{count} times something other than an event stood between events", "dropped", ""),
    "invalid-utf8": Issue("{count} events hold bytes that are not UTF-8; replaced by U+FFFD", "repaired", "names"),
    "truncated": Issue("the file ends in the middle: what follows is missing", "missing", "time, counts, window"),
    "broken-container": Issue("the compressed data is damaged: what follows is missing", "missing", "time, counts"),
    "size-limit": Issue("the content is larger than the limit: what follows was not read", "missing", "time, counts"),
    "unreadable-metadata": Issue("{count} values outside of the events are not valid JSON", "repaired", "metadata"),
    "overlapping-slices": Issue(
        "{count} slices cross another of their track; drawn in lanes of their own", "repaired", "self time"
    ),
    "missing-launch": Issue(
        "{count} device slices have no launch record", "missing", "attribution of device time to ops"
    ),
    "missing-op": Issue(
        "{count} device slices have a launch but no op", "missing", "attribution of device time to ops"
    ),
    "no-correlation": Issue(
        "{count} device slices carry no correlation id", "missing", "attribution of device time to ops"
    ),
    "bad-link-id": Issue(
        "{count} correlation or external ids are not integers", "repaired", "attribution of device time to ops"
    ),
    "duplicate-correlation": Issue(
        "{count} correlation ids are shared by several launches", "repaired", "attribution of device time to ops"
    ),
    "missing-rank": Issue("the file names no rank", "missing", "comparison between ranks"),
    "duplicate-rank": Issue("{count} files claim a rank that another file has", "repaired", "comparison between ranks"),
    "no-clock-base": Issue("the file does not place its clock on Unix time", "missing", "alignment between ranks"),
    "clock-jump": Issue("{count} tracks hold a gap of more than an hour", "missing", "window, idle time"),
    "no-device-events": Issue("the file has no device slices", "missing", "device time"),
    "lane-limit": Issue("{count} slices share the last of the lanes of a crowded track", "repaired", "self time"),
    "bad-counter": Issue("{count} counter samples are not numbers", "repaired", "counters"),
    "partial-decode": Issue("only a part of this file's content is decoded", "missing", "everything not decoded"),
    "unknown-schema": Issue(
        "the schema version is newer than what is known here; tables are kept as they are", "missing", ""
    ),
    "summary-mismatch": Issue("{count} stored summary metrics differ from those recomputed", "missing", "summary"),
    "missing-pair": Issue("the file that belongs to this one was not found beside it", "missing", ""),
}


@dataclass(slots=True)
class _Entry:
    count: int = 0
    examples: list[str] = field(default_factory=list)


class Quality:
    """Counts issues of one source, with the first few examples of each kind."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def add(self, kind: str, example: str = "", count: int = 1) -> None:
        """Count an issue; `kind` is a key of `ISSUES`."""
        if kind not in ISSUES:
            raise KeyError(kind)
        entry = self._entries.setdefault(kind, _Entry())
        entry.count += count
        if example and len(entry.examples) < MAX_EXAMPLES:
            entry.examples.append(example[:_EXAMPLE_CHARS])

    def wants_example(self, kind: str) -> bool:
        """Whether another example of this kind would be kept."""
        entry = self._entries.get(kind)
        return entry is None or len(entry.examples) < MAX_EXAMPLES

    def counts(self) -> dict[str, int]:
        """Count per kind."""
        return {kind: entry.count for kind, entry in sorted(self._entries.items())}

    def rows(self, source_id: int) -> list[dict[str, object]]:
        """Rows of the table DataQuality."""
        return [
            {
                "kind": kind,
                "count": entry.count,
                "detail": _sentence(kind, entry),
                "source_id": source_id,
                "severity": ISSUES[kind].severity,
                "affects": ISSUES[kind].affects or None,
                "examples": json.dumps(entry.examples),
            }
            for kind, entry in sorted(self._entries.items())
        ]


def _sentence(kind: str, entry: _Entry) -> str:
    sentence = ISSUES[kind].sentence.format(count=entry.count)
    return f"{sentence}; for example {entry.examples[0]}" if entry.examples else sentence
