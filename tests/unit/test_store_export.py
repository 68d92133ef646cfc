"""Exports, decoded again by hand."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from trnscope import TrnscopeError
from trnscope.commands.main import main
from trnscope.store.export_perfetto import export_perfetto
from trnscope.store.importer import import_traces
from trnscope.store.trace import Trace

EVENTS: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
    {"ph": "X", "name": "outer", "pid": 1, "tid": 1, "ts": 0, "dur": 10, "cat": "cpu_op", "args": {"n": -3, "s": "é"}},
    {"ph": "X", "name": "inner", "pid": 1, "tid": 1, "ts": 1, "dur": 9},
    {"ph": "X", "name": "cross", "pid": 1, "tid": 1, "ts": 5, "dur": 10},
    {"ph": "s", "name": "go", "cat": "f", "id": 1, "pid": 1, "tid": 1, "ts": 0},
    {"ph": "f", "name": "go", "cat": "f", "id": 1, "pid": 1, "tid": 2, "ts": 20},
    {"ph": "X", "name": "target", "pid": 1, "tid": 2, "ts": 20, "dur": 1},
    {"ph": "C", "name": "mem", "pid": 1, "ts": 3, "args": {"used": 2.5}},
    {"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": 4},
]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    return Trace(import_traces([path], tmp_path / "store").directory)


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and raw values of a protobuf message."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value, at

    at = 0
    while at < len(data):
        tag, at = varint(at)
        match tag & 7:
            case 0:
                value, at = varint(at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                size, at = varint(at)
                yield tag >> 3, data[at : at + size]
                at += size
            case other:
                raise AssertionError(other)


def test_perfetto_holds_tracks_lanes_slices_counters_and_flows(trace: Trace, tmp_path: Path) -> None:
    out = tmp_path / "t.pftrace"
    packets = export_perfetto(trace, out)
    decoded = [dict(fields(packet)) for number, packet in fields(out.read_bytes()) if number == 1]
    assert len(decoded) == packets
    names = {}
    for packet in decoded:
        if 60 in packet:
            descriptor = dict(fields(packet[60]))
            label = descriptor[2] if 2 in descriptor else dict(fields(descriptor[3]))[6]
            names[descriptor[1]] = label.decode()
    assert {"python", "1", "1 (lane 1)", "2", "mem.used"} <= set(names.values())
    slices: list[tuple[str, str, int, int]] = []
    stacks: dict[str, list[tuple[str, int]]] = {}
    flows: dict[str, set[bytes]] = {"start": set(), "finish": set()}
    for packet in decoded:
        if 11 not in packet:
            continue
        event = dict(fields(packet[11]))
        track = names[event[11]]
        match event[9]:
            case 1:
                stacks.setdefault(track, []).append((event[23].decode(), packet[8]))
                if 47 in event:
                    flows["start"].add(event[47])
                if 48 in event:
                    flows["finish"].add(event[48])
                if event[23] == b"outer":
                    annotations = [dict(fields(value)) for number, value in fields(packet[11]) if number == 4]
                    assert annotations == [{10: b"n", 4: 2**64 - 3}, {10: b"s", 6: "é".encode()}]
                    assert event[22] == b"cpu_op"
            case 2:
                name, start = stacks[track].pop()
                slices.append((name, track, start, packet[8] - start))
            case 3:
                assert (event[23], packet[8]) == (b"mark", 4000)
            case 4:
                assert (track, packet[8], struct.unpack("<d", event[44])) == ("mem.used", 3000, (2.5,))
    assert sorted(slices) == [
        ("cross", "1 (lane 1)", 5000, 10000),
        ("inner", "1", 1000, 9000),
        ("outer", "1", 0, 10000),
        ("target", "2", 20000, 1000),
    ]
    assert not any(stacks.values())
    assert flows["start"] == flows["finish"] != set()


def test_results_go_to_files_by_suffix(trace: Trace, tmp_path: Path) -> None:
    result = trace.sql("SELECT name, duration_ns FROM Slice ORDER BY slice_id LIMIT 2")
    result.write(tmp_path / "r.parquet")
    assert pq.read_table(tmp_path / "r.parquet").to_pylist() == [
        {"name": "outer", "duration_ns": 10000},
        {"name": "inner", "duration_ns": 9000},
    ]
    result.write(tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text().splitlines() == ['"name","duration_ns"', '"outer",10000', '"inner",9000']
    with pytest.raises(TrnscopeError, match=r"unknown kind of file"):
        result.write(tmp_path / "r.xlsx")


def test_a_failing_query_is_one_message_that_names_the_tables(trace: Trace) -> None:
    with pytest.raises(TrnscopeError, match="Slice"):
        trace.sql("SELECT * FROM nothing")


def test_importing_again_reads_nothing_and_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    first = import_traces([path], tmp_path / "store")
    stamp = (first.directory / "sources/0000/Slice.parquet").stat().st_mtime_ns
    again = import_traces([path], tmp_path / "store")
    assert (first.imported, again.imported, again.kept) == (1, 0, 1)
    assert (first.directory / "sources/0000/Slice.parquet").stat().st_mtime_ns == stamp
    path.write_text(json.dumps({"traceEvents": EVENTS[:4]}))
    assert import_traces([path], tmp_path / "store").imported == 1


def test_a_foreign_directory_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("hello")
    with pytest.raises(TrnscopeError, match="no import directory"):
        import_traces([path], tmp_path / "mine")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("kind", ["chrome", "perfetto", "parquet", "arrow", "csv"])
def test_the_command_writes_every_format(trace: Trace, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    assert main(["export", str(trace.directory), "--format", kind, "--out", str(out)]) == 0
    if out.is_dir():
        assert {path.name for path in out.iterdir()} >= {f"Slice.{kind}", f"Source.{kind}", f"Counter.{kind}"}
    else:
        assert out.stat().st_size > 200
