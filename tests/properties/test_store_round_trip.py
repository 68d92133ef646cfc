"""Generated traces -> chrome JSON -> import -> export -> import are equal."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trnscope.store.export_chrome import export_chrome
from trnscope.store.importer import import_traces
from trnscope.store.trace import Trace

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="@"), max_size=12)
TIMES = st.integers(-(10**12), 2 * 10**18)
IDS = st.one_of(st.integers(-5, 2**62), TEXT)
ARGS = st.dictionaries(TEXT, st.one_of(st.integers(-(2**53), 2**53), TEXT, st.none(), st.booleans()), max_size=3)


def _micros(time_ns: int) -> Any:
    sign = "-" if time_ns < 0 else ""
    return f"@{sign}{abs(time_ns) // 1000}.{abs(time_ns) % 1000:03d}@"


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    event: dict[str, Any] = {"name": draw(TEXT), "pid": draw(IDS), "tid": draw(IDS), "ts": _micros(draw(TIMES))}
    phase = event["ph"] = draw(st.sampled_from("XXXisf"))
    if phase == "X":
        event["dur"] = _micros(draw(st.integers(0, 10**12)))
    if phase in "sf":
        event["id"] = draw(IDS)
    elif draw(st.booleans()):
        event["args"] = draw(ARGS)
    if draw(st.booleans()):
        event["cat"] = draw(TEXT)
    return event


def _tables(trace: Trace) -> dict[str, list[tuple[Any, ...]]]:
    track = "(SELECT track_id, pid, tid FROM Track JOIN Process USING (process_id)) t USING (track_id)"
    return {
        "slices": trace.sql(
            f"SELECT pid, tid, name, category, start_ns, duration_ns, json(args) FROM Slice JOIN {track} ORDER BY ALL"
        ).fetchall(),
        "instants": trace.sql(
            f"SELECT pid, tid, name, category, timestamp_ns, scope, json(args) FROM Instant JOIN {track} ORDER BY ALL"
        ).fetchall(),
        "flows": trace.sql(
            f"SELECT pid, tid, name, category, timestamp_ns, phase, flow FROM FlowPoint JOIN {track} ORDER BY ALL"
        ).fetchall(),
    }


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(events(), min_size=1, max_size=12))
def test_import_and_export_are_inverse(generated: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        first, second = Path(scratch) / "first", Path(scratch) / "second"
        text = json.dumps({"traceEvents": generated})
        first.write_text(text.replace('"@', "").replace('@"', ""))
        with Trace(import_traces([first], Path(scratch) / "a").directory) as trace:
            expected = _tables(trace)
            assert sum(len(rows) for rows in expected.values()) == len(generated)
            assert export_chrome(trace, second) >= len(generated)
        with Trace(import_traces([second], Path(scratch) / "b").directory) as trace:
            assert _tables(trace) == expected
