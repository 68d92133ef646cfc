"""Broken traces: what can be read is read, what was mended is counted, nothing vanishes."""

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from trnscope import TrnscopeError
from trnscope.store.importer import import_traces
from trnscope.store.trace import Trace

Import = Callable[..., Trace]


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    def run(content: bytes | str | list[dict[str, Any]], name: str = "trace.bin") -> Trace:
        if isinstance(content, list):
            content = json.dumps({"traceEvents": content})
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        before = path.read_bytes()
        trace = Trace(import_traces([path], tmp_path / "store").directory)
        assert path.read_bytes() == before
        return trace

    return run


def slices(trace: Trace) -> list[tuple[Any, ...]]:
    return trace.sql("SELECT name, start_ns, duration_ns, repairs FROM Slice ORDER BY slice_id").fetchall()


def issues(trace: Trace) -> dict[str, int]:
    found = dict(trace.sql("SELECT kind, count FROM DataQuality").fetchall())
    found.pop("no-device-events", None)
    return found


def complete(name: str = "a", ts: Any = 1, dur: Any = 2, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **more}


def wrapped(*events: str) -> str:
    return '{"traceEvents": [' + ", ".join(events) + "]}"


GOOD = '{"ph": "X", "name": "good", "pid": 1, "tid": 1, "ts": 5, "dur": 1}'


def test_times_are_exact_integers(imported: Import) -> None:
    trace = imported(
        wrapped(
            '{"ph":"X","name":"epoch","pid":1,"tid":1,"ts":1712345678901234.567,"dur":0.001}',
            '{"ph":"X","name":"digits","pid":1,"tid":1,"ts":1.0005,"dur":1.00049}',
            '{"ph":"X","name":"exponent","pid":1,"tid":1,"ts":1.5e3,"dur":25e-2}',
            '{"ph":"X","name":"text","pid":1,"tid":1,"ts":"2.5","dur":"3"}',
            '{"ph":"X","name":"negative","pid":1,"tid":1,"ts":-2.5,"dur":1}',
        )
    )
    assert slices(trace) == [
        ("epoch", 1712345678901234567, 1, 0),
        ("digits", 1001, 1000, 32),
        ("exponent", 1500000, 250, 0),
        ("text", 2500, 3000, 8),
        ("negative", -2500, 1000, 0),
    ]
    assert issues(trace) == {"rounded-time": 1, "text-time": 1, "clock-jump": 1}


def test_durations_that_cannot_be_are_marked_and_taken_as_nothing(imported: Import) -> None:
    events = [complete("minus", 10, -7), complete("open", 20, -1), complete("none", 30), complete("bad", 40, "soon")]
    del events[2]["dur"]
    trace = imported(events)
    assert slices(trace) == [("minus", 10000, 0, 1), ("open", 20000, 0, 2), ("none", 30000, 0, 4), ("bad", 40000, 0, 4)]
    assert issues(trace) == {"negative-duration": 1, "unfinished-slice": 1, "missing-duration": 2}


@pytest.mark.parametrize("ts", ["null", "NaN", "Infinity", '"later"', "1e300", "99999999999999999999", "true", "[]"])
def test_events_without_a_usable_time_are_kept_as_text(imported: Import, ts: str) -> None:
    event = '{"ph": "X", "name": "lost", "pid": 1, "tid": 1, "dur": 1, "ts": ' + ts + "}"
    trace = imported(wrapped(event, GOOD))
    assert [row[0] for row in slices(trace)] == ["good"]
    ((reason, text),) = trace.sql("SELECT reason, text FROM RawEvent").fetchall()
    assert reason == "no-timestamp"
    assert '"lost"' in text
    assert issues(trace)["no-timestamp"] == 1


@pytest.mark.parametrize(
    ("literal", "name"),
    [
        (r'"kernel<"float">"', 'kernel<"float">'),
        (r'"C:\path\quux"', r"C:\path\quux"),
        ('"tab\there"', "tab\there"),
        ('"line\nbreak"', "line\nbreak"),
        (r'"ok é \"quoted\" \\ end"', 'ok é "quoted" \\ end'),
        (r'"bad \x41 escape"', r"bad \x41 escape"),
        ('"say "hi", friend"', 'say "hi", friend'),
        ('"operator""', 'operator"'),
    ],
)
def test_names_with_broken_text_survive(imported: Import, literal: str, name: str) -> None:
    event = '{"ph": "X", "pid": 1, "tid": 1, "ts": 1, "name": ' + literal + ', "dur": 1}'
    trace = imported(wrapped(GOOD, event, GOOD))
    assert [row[0] for row in slices(trace)] == ["good", name, "good"]
    assert trace.tables["RawEvent"].rows == 0


def test_values_that_are_no_json_numbers_become_null(imported: Import) -> None:
    event = (
        '{"ph": "X", "name": "k", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": '
        '{"a": nan, "b": -inf, "c": [inf, NaN, 1], "d": Infinity, "e": "nan", "f": 1.#IND, "correlation": 7}}'
    )
    trace = imported(wrapped(event))
    ((args, correlation),) = trace.sql("SELECT args, correlation FROM Slice").fetchall()
    assert json.loads(args) == {
        "a": None, "b": None, "c": [None, None, 1], "d": None, "e": "nan", "f": None, "correlation": 7,
    }  # fmt: skip
    assert correlation == 7
    assert issues(trace) == {"rewritten-event": 1}


def test_bytes_that_are_not_utf8_become_replacement_characters(imported: Import) -> None:
    event = b'{"ph": "X", "name": "bad \xff\xfe name", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
    umlaut = '{"ph": "X", "name": "größe", "pid": 1, "tid": 1, "ts": 2, "dur": 1}'.encode()
    trace = imported(b'{"traceEvents": [' + b", ".join([umlaut, event, umlaut, GOOD.encode()]) + b"]}")
    assert [row[0] for row in slices(trace)] == ["größe", "bad \ufffd\ufffd name", "größe", "good"]
    assert issues(trace)["invalid-utf8"] == 1


def test_a_truncated_file_keeps_its_whole_events_and_the_rest_as_text(imported: Import) -> None:
    whole = wrapped(GOOD, GOOD, GOOD)
    for cut in (len(whole) - 1, len(whole) - 2, len(whole) - 20, 20):
        trace = imported(whole[:cut])
        expected = 3 if cut >= len(whole) - 2 else 2 if cut > 100 else 0
        assert len(slices(trace)) == expected, whole[:cut]
        assert issues(trace)["truncated"] == 1


def test_truncated_gzip_gives_what_was_readable(imported: Import) -> None:
    events = [complete(f"op{k}", k * 10, 1, args={"x": k * 7919 % 1000}) for k in range(20000)]
    packed = gzip.compress(json.dumps({"traceEvents": events}).encode())
    trace = imported(packed[: len(packed) // 2])
    assert 5000 < len(slices(trace)) < 15000
    assert issues(trace)["broken-container"] == 1
    assert issues(trace)["truncated"] == 1


def test_separators_may_be_missing_and_strangers_may_stand_between_events(imported: Import) -> None:
    trace = imported('{"traceEvents": [' + GOOD + GOOD + ",," + GOOD + ', 17, null, "text", ' + GOOD + ",]}")
    assert len(slices(trace)) == 4
    assert issues(trace)["stray-content"] >= 1


def test_array_form_without_closing_bracket_is_a_trace(imported: Import) -> None:
    trace = imported("[" + GOOD + ",\n" + GOOD + ",\n")
    assert len(slices(trace)) == 2


@pytest.mark.parametrize("container", ["plain", "gzip", "zstd", "zip"])
def test_containers_are_recognised_by_content(imported: Import, tmp_path: Path, container: str) -> None:
    content = wrapped(GOOD, GOOD).encode()
    if container == "gzip":
        content = gzip.compress(content[:40]) + gzip.compress(content[40:])
    elif container == "zstd":
        content = pa.compress(content, "zstd", asbytes=True)
    elif container == "zip":
        with zipfile.ZipFile(tmp_path / "z", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("some/trace.txt", content)
        content = (tmp_path / "z").read_bytes()
    trace = imported(content)
    assert len(slices(trace)) == 2
    assert trace.sources[0]["source"]["container"] == container


def test_begin_and_end_pair_by_nesting_and_name(imported: Import) -> None:
    def event(phase: str, ts: int, name: str = "", **more: Any) -> dict[str, Any]:
        return {"ph": phase, "name": name, "pid": 1, "tid": 1, "ts": ts, **more}

    trace = imported(
        [
            event("B", 0, "outer", args={"a": 1}),
            event("B", 2, "inner"),
            event("E", 4),
            event("E", 9, "outer", args={"b": 2}),
            event("E", 10, "nobody"),
            event("B", 11, "never"),
            event("B", 12, "skipped"),
            event("B", 13, "last"),
            event("E", 15, "last"),
        ]
    )
    rows = trace.sql("SELECT name, start_ns, duration_ns, repairs, args FROM Slice ORDER BY slice_id").fetchall()
    assert [row[:4] for row in rows] == [
        ("outer", 0, 9000, 0),
        ("inner", 2000, 2000, 0),
        ("never", 11000, 4000, 2),
        ("skipped", 12000, 3000, 2),
        ("last", 13000, 2000, 0),
    ]
    assert json.loads(rows[0][4]) == {"a": 1, "end": {"b": 2}}
    assert issues(trace) == {"unmatched-end": 1, "unfinished-slice": 2}


def test_async_events_pair_across_threads_by_category_and_id(imported: Import) -> None:
    def event(phase: str, ts: int, tid: int, ident: Any, name: str = "request") -> dict[str, Any]:
        return {"ph": phase, "name": name, "cat": "net", "id": ident, "pid": 1, "tid": tid, "ts": ts}

    trace = imported([event("b", 0, 1, "0x1"), event("b", 1, 1, 2), event("e", 5, 2, "0x1"), event("e", 9, 3, 2)])
    assert slices(trace) == [("request", 0, 5000, 0), ("request", 1000, 8000, 0)]
    assert trace.sql("SELECT kind, lanes FROM Track WHERE lanes > 1").fetchall() == [("async", 2)]


def test_counters_instants_and_flows_have_their_tables(imported: Import) -> None:
    trace = imported(
        [
            complete("host", 0, 10),
            {"ph": "C", "name": "memory", "pid": 1, "ts": 1, "args": {"used": 5, "free": "7.5", "odd": "x"}},
            {"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": 2, "s": "t", "args": {"k": 1}},
            {"ph": "s", "name": "go", "cat": "f", "id": 9007199254740993, "pid": 1, "tid": 1, "ts": 3},
            {"ph": "f", "name": "go", "cat": "f", "id": 9007199254740993, "pid": 1, "tid": 2, "ts": 4, "bp": "e"},
            {"ph": "?", "name": "odd", "pid": 1, "tid": 1, "ts": 5},
        ]
    )
    counters = trace.sql("SELECT series, value FROM Counter ORDER BY series").fetchall()
    assert counters == [("free", 7.5), ("odd", None), ("used", 5.0)]
    assert trace.sql("SELECT name, scope, timestamp_ns, args FROM Instant").fetchall() == [
        ("mark", "t", 2000, '{"k": 1}')
    ]
    assert trace.sql("SELECT phase, flow FROM FlowPoint ORDER BY event_id").fetchall() == [
        ("s", "9007199254740993"),
        ("f", "9007199254740993"),
    ]
    bound = trace.sql(
        "SELECT p.phase, s.name FROM PointBinding b JOIN FlowPoint p USING (event_id) JOIN Slice s USING (slice_id)"
    ).fetchall()
    assert bound == [("s", "host")]
    assert trace.sql("SELECT reason FROM RawEvent").fetchall() == [("unknown-phase",)]


def test_crossing_slices_get_lanes_and_sane_parents(imported: Import) -> None:
    trace = imported(
        [complete("outer", 0, 10), complete("left", 1, 4), complete("cross", 3, 4), complete("late", 8, 5)]
    )
    rows = trace.sql(
        "SELECT s.name, n.lane, n.depth, p.name, n.covered_ns FROM Nesting n JOIN Slice s USING (slice_id) "
        "LEFT JOIN Slice p ON p.slice_id = n.parent_id ORDER BY n.start_ns"
    ).fetchall()
    assert rows == [
        ("outer", 0, 0, None, 0),
        ("left", 0, 1, "outer", 4000),
        ("cross", 1, 0, "outer", 2000),
        ("late", 1, 0, None, 0),
    ]
    assert issues(trace)["overlapping-slices"] == 2
    assert trace.sql("SELECT max(lanes) FROM Track").fetchall() == [(2,)]


def test_unknown_keys_of_events_and_documents_are_kept(imported: Import) -> None:
    trace = imported(
        '{"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "cname": "good",'
        ' "args": {"x": 1}}], "otherData": {"version": "v1"}, "path": "C:\\temp\\new"}'
    )
    ((args,),) = trace.sql("SELECT args FROM Slice").fetchall()
    assert json.loads(args) == {"x": 1, "event": {"cname": "good"}}
    values = dict(trace.sql("SELECT key, value FROM TraceMetadata").fetchall())
    assert json.loads(values["otherData"]) == {"version": "v1"}
    assert "temp" in values["path"]


def test_deep_nesting_is_bounded(imported: Import) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    event = '{"ph": "X", "name": "deep", "ts": 1, "dur": 1, "args": {"d": ' + deep + "}}"
    trace = imported(wrapped(GOOD, event, GOOD))
    assert [row[0] for row in slices(trace)] == ["good", "good"]
    assert trace.tables["RawEvent"].rows == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"hello there", "not a trace"),
        (b'{"a": 1, "b": [2]}', "no trace: its 2 top-level keys are a, b"),
        (b"[1, 2, 3]", "first element (byte 1) is no trace event"),
    ],
)
def test_what_is_no_trace_is_told_in_one_message(imported: Import, content: bytes, message: str) -> None:
    with pytest.raises(TrnscopeError) as failure:
        imported(content)
    assert message in str(failure.value)
    assert "trace.bin" in str(failure.value)


def test_torch_links_follow_correlation_nesting_and_external_id(imported: Import) -> None:
    def event(cat: str, name: str, ts: int, dur: int, tid: int = 1, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}

    trace = imported(
        [
            event("cpu_op", "aten::mm", 0, 10, **{"External id": 3, "Sequence number": 5, "Fwd thread id": 0}),
            event("cuda_runtime", "launch", 2, 2, correlation=7, **{"External id": 3}),
            event("kernel", "gemm", 20, 5, 7, correlation=7, stream=7, device=0),
            event("cpu_op", "aten::add", 30, 1, **{"External id": 4}),
            event("cuda_runtime", "launch", 40, 2, correlation=8, **{"External id": 4}),
            event("gpu_memcpy", "copy", 50, 5, 7, correlation=8),
            event("kernel", "orphan", 60, 5, 7, correlation=99),
            event("kernel", "nameless", 70, 5, 7),
            event("cpu_op", "MmBackward0", 80, 5, **{"Sequence number": 5, "Fwd thread id": 1}),
        ]
    )
    rows = trace.sql(
        "SELECT k.name, launch.name, op.name, l.method, l.reason FROM KernelLink l JOIN Slice k USING (slice_id) "
        "LEFT JOIN Slice launch ON launch.slice_id = l.launch_id LEFT JOIN Slice op ON op.slice_id = l.op_id "
        "ORDER BY k.slice_id"
    ).fetchall()
    assert rows == [
        ("gemm", "launch", "aten::mm", "enclosing", None),
        ("copy", "launch", "aten::add", "external-id", None),
        ("orphan", None, None, "none", "missing-launch"),
        ("nameless", None, None, "none", "no-correlation"),
    ]
    backward = trace.sql(
        "SELECT b.name, f.name FROM AutogradLink a JOIN Slice b ON b.slice_id = a.backward_id "
        "JOIN Slice f ON f.slice_id = a.forward_id"
    ).fetchall()
    assert backward == [("MmBackward0", "aten::mm")]
    assert trace.sql("SELECT kind, device, stream FROM Track WHERE tid = '7'").fetchall() == [("stream", 0, 7)]
