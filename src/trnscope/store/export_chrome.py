"""An import as a chrome trace, readable by chrome://tracing, Perfetto and this package."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from trnscope.store.trace import Trace

_BATCH: Final = 16384


def export_chrome(trace: Trace, out: Path) -> int:
    """Write every source of a trace into one file; returns the number of events.

    Times keep their nanoseconds. Of a trace with several sources, pids get the rank in front, so that equal pids stay
    apart. What has no place in the format (links, lanes, data quality) is left out; the events it was made from are
    there.
    """
    count = 0
    several = len(trace.sources) > 1
    with out.open("w") as file:
        file.write('{"traceEvents": [\n')
        separator = ""
        for event, times in _events(trace, several):
            # times are spliced in: as floats they would lose nanoseconds
            body = json.dumps(event, ensure_ascii=False)[:-1]
            file.write(separator + body + "".join(f', "{key}": {micros(ns)}' for key, ns in times.items()) + "}")
            separator = ",\n"
            count += 1
        file.write("\n]")
        if not several:
            for key, value in trace.sql(
                "SELECT key, value FROM TraceMetadata WHERE NOT starts_with(key, 'event:') ORDER BY key"
            ).fetchall():
                file.write(f",\n{json.dumps(key)}: {value}")
        file.write("}\n")
    return count


_Timed = tuple[dict[str, Any], dict[str, int]]
"""An event without its times, and its times in nanoseconds."""


def _events(trace: Trace, several: bool) -> Iterator[_Timed]:
    prefix = "'rank ' || coalesce(s.rank, s.source_id) || ': ' || " if several else ""
    names = (
        f"SELECT t.track_id, {prefix}p.pid AS pid, t.tid FROM Track t JOIN Process p USING (process_id) "
        "JOIN Source s ON s.source_id = t.source_id"
    )
    yield from _metadata(trace, names)
    queries = (
        ("X", "SELECT pid, tid, name, category, start_ns, duration_ns, args, slice_id, NULL AS id, NULL AS phase "
              "FROM Slice JOIN names USING (track_id) ORDER BY slice_id"),
        ("i", "SELECT pid, tid, name, category, timestamp_ns, NULL, args, event_id, NULL, scope "
              "FROM Instant JOIN names USING (track_id) ORDER BY event_id"),
        ("f", "SELECT pid, tid, name, category, timestamp_ns, NULL, NULL, event_id, flow, phase "
              "FROM FlowPoint JOIN names USING (track_id) ORDER BY event_id"),
    )  # fmt: skip
    for phase, query in queries:
        for row in trace.stream(f"WITH names AS ({names}) {query}", _BATCH):
            yield _event(phase, *row)
    counters = (
        f"WITH names AS ({names}) SELECT pid, name, timestamp_ns, list(series), list(value) FROM Counter "
        "JOIN names USING (track_id) GROUP BY event_id, pid, name, timestamp_ns ORDER BY event_id"
    )
    for pid, name, at, series, values in trace.stream(counters, _BATCH):
        samples = dict(zip(series, values, strict=True))
        yield {"ph": "C", "name": name, "pid": scalar(pid), "args": samples}, {"ts": at}


def _metadata(trace: Trace, names: str) -> Iterator[_Timed]:
    query = (
        f"WITH names AS ({names}) SELECT DISTINCT n.pid, NULL, 'process_name', p.name FROM names n "
        "JOIN Track t USING (track_id) JOIN Process p USING (process_id) WHERE p.name IS NOT NULL UNION ALL "
        "SELECT n.pid, n.tid, 'thread_name', t.name FROM names n JOIN Track t USING (track_id) "
        "WHERE t.name IS NOT NULL AND t.kind NOT IN ('counter', 'async') ORDER BY ALL"
    )
    for pid, tid, kind, name in trace.sql(query).fetchall():
        event = {"ph": "M", "name": kind, "pid": scalar(pid), "args": {"name": name}}
        yield (event if tid is None else {**event, "tid": scalar(tid)}), {}


def _event(
    phase: str,
    pid: str,
    tid: str,
    name: str,
    category: str | None,
    start_ns: int,
    duration_ns: int | None,
    args: str | None,
    _event_id: int,
    flow: str | None,
    letter: str | None,
) -> _Timed:
    event: dict[str, Any] = {"ph": phase, "name": name, "pid": scalar(pid), "tid": scalar(tid)}
    times = {"ts": start_ns}
    if category is not None:
        event["cat"] = category
    if duration_ns is not None:
        times["dur"] = duration_ns
    if args is not None:
        event["args"] = json.loads(args)
    if phase == "f":
        event["ph"] = letter
        if flow is not None:
            event["id"] = scalar(flow)
    elif letter is not None:
        event["s"] = letter
    return event, times


def micros(time_ns: int) -> str:
    """Microseconds as an exact decimal."""
    sign = "-" if time_ns < 0 else ""
    whole, rest = divmod(abs(time_ns), 1000)
    return f"{sign}{whole}.{rest:03d}" if rest else f"{sign}{whole}"


def scalar(text: str) -> int | str:
    """A pid, tid or id: a number where the text is one in plain form."""
    if text.lstrip("-").isdecimal() and text.isascii() and str(Decimal(text)) == text:
        return int(text)
    return text
