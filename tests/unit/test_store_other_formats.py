"""Formats without public sample files, on small inputs made here to the documented shapes."""

import json
import os
import pickle
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trnscope
from trnscope import TrnscopeError
from trnscope.store.detect import detect
from trnscope.store.importer import import_traces
from trnscope.store.trace import Trace


def test_explorer_tables_of_an_unknown_version_are_kept_whole(tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    profile.mkdir()
    pq.write_table(
        pa.table({"profile_schema_version": ["12.0.1"], "ntff_version": [6], "instance_type": ["trn2.48xlarge"]}),
        profile / "Metadata.parquet",
    )
    for part, start in enumerate((0, 100)):
        table = {"start_ts": [start], "end_ts": [start + 10], "duration_ns": [10], "engine": ["tensor"]}
        pq.write_table(
            pa.table({**table, "opcode": ["MATMUL"], "novel": [1.5]}), profile / f"Instruction_{part}.parquet"
        )
    pq.write_table(pa.table({"what": ["unheard of"]}), profile / "Novelty.parquet")
    pq.write_table(pa.table({"name": ["clash"]}), profile / "Slice.parquet")
    with Trace(import_traces([profile], tmp_path / "store").directory) as trace:
        (entry,) = trace.sources
        assert entry["source"]["format"] == "explorer-parquet"
        assert entry["extra"]["profile_schema_version"] == "12.0.1"
        assert trace.sql("SELECT novel, engine FROM Instruction ORDER BY start_ts").fetchall() == [
            (1.5, "tensor"),
            (1.5, "tensor"),
        ]
        assert trace.sql("SELECT what FROM Novelty").fetchall() == [("unheard of",)]
        assert trace.sql("SELECT name FROM ForeignSlice").fetchall() == [("clash",)]
        slices = trace.sql("SELECT s.name, t.tid, s.start_ns, s.duration_ns FROM Slice s JOIN Track t USING (track_id)")
        assert sorted(slices.fetchall()) == [("MATMUL", "tensor", 0, 10), ("MATMUL", "tensor", 100, 10)]
        assert trace.sql("SELECT kind FROM DataQuality").fetchall() == [("unknown-schema",)]


SNAPSHOT = {
    "segments": [
        {
            "device": 0, "address": 4096, "total_size": 2048, "allocated_size": 512, "active_size": 512, "stream": 0,
            "segment_type": "small",
            "blocks": [
                {"size": 512, "requested_size": 500, "state": "active_allocated",
                 "frames": [{"filename": "train.py", "line": 3, "name": "step"}]},
                {"size": 1536, "requested_size": 0, "state": "inactive"},
            ],
        }
    ],
    "device_traces": [
        [
            {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 10, "frames": []},
            {"action": "alloc", "addr": 8192, "size": 100, "stream": 0, "time_us": 20, "frames": []},
            {"action": "free_completed", "addr": 4096, "size": 512, "stream": 0, "time_us": 30, "frames": []},
        ]
    ],
}  # fmt: skip


@pytest.mark.parametrize("as_pickle", [True, False])
def test_memory_snapshots_give_segments_blocks_and_use_over_time(tmp_path: Path, as_pickle: bool) -> None:
    path = tmp_path / "snapshot"
    path.write_bytes(pickle.dumps(SNAPSHOT) if as_pickle else json.dumps(SNAPSHOT).encode())
    with Trace(import_traces([path], tmp_path / "store").directory) as trace:
        assert trace.sources[0]["source"]["format"] == "memory-snapshot"
        blocks = trace.sql("SELECT address, size_bytes, state FROM MemoryBlock ORDER BY 1").fetchall()
        assert blocks == [(4096, 512, "active_allocated"), (4608, 1536, "inactive")]
        use = trace.sql("SELECT timestamp_ns, value FROM Counter ORDER BY 1").fetchall()
        assert use == [(10000, 512.0), (20000, 612.0), (30000, 100.0)]


class _Evil:
    def __reduce__(self) -> object:
        return os.system, ("touch pwned",)


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "snapshot"
    path.write_bytes(pickle.dumps({"segments": [_Evil()]}))
    with pytest.raises(TrnscopeError, match="plain data only"):
        import_traces([path], tmp_path / "store")
    assert not (tmp_path / "pwned").exists()


def test_framework_mappings_are_a_table(tmp_path: Path) -> None:
    path = tmp_path / "m"
    ops = [{"seq_nr": 4, "th_id": 1, "stream_id": 0}, {"seq_nr": 5, "th_id": 1, "stream_id": 0}]
    path.write_text(json.dumps({"version": 1, "data": [{"nrta_seq_id": 17, "framework_op_exec_ids": ops}]}))
    with Trace(import_traces([path], tmp_path / "store").directory) as trace:
        assert trace.sources[0]["source"]["format"] == "framework-mapping"
        assert trace.sql("SELECT nrt_sequence_id, sequence_number FROM FrameworkMapping ORDER BY 2").fetchall() == [
            (17, 4),
            (17, 5),
        ]


def test_binary_headers_are_read_and_said_to_be_partial(tmp_path: Path) -> None:
    ntff, neff = tmp_path / "a.ntff", tmp_path / "b"
    ntff.write_bytes(bytes([5, 138, 92]) + bytes(125) + b"\x0a\x04/a/b\x12\x10" + bytes(range(16)) + b"\x18\x01")
    neff.write_bytes(struct.pack("<QQQ", 2, 1024, 5) + bytes(1000) + b"\x1f\x8bxyz")
    assert (detect(ntff).format, detect(neff).format) == ("ntff", "neff")
    with Trace(import_traces([ntff], tmp_path / "store").directory) as trace:
        extra = trace.sources[0]["extra"]
        assert (extra["ntff_version"], extra["program_path"]) == (5, "/a/b")
        assert extra["program_uuid"] == bytes(range(16)).hex()
        kinds = {kind for (kind,) in trace.sql("SELECT kind FROM DataQuality").fetchall()}
        assert kinds == {"partial-decode", "missing-pair"}


def test_a_directory_of_ranks_keeps_equal_pids_apart_and_settles_ranks(tmp_path: Path) -> None:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    event = {"ph": "X", "name": "op", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    for name, rank in (("a.json", 1), ("b.json", 1), ("c_rank_3.json", None)):
        info = {"distributedInfo": {"rank": rank}} if rank is not None else {}
        (ranks / name).write_text(json.dumps({**info, "traceEvents": [event]}))
    (ranks / "readme.txt").write_text("not a trace")
    with trnscope.open(ranks) as trace:
        found = trace.sql("SELECT path, rank, rank_origin FROM Source ORDER BY source_id").fetchall()
        assert found == [("a.json", 1, "file"), ("b.json", 0, "order"), ("c_rank_3.json", 3, "name")]
        assert trace.sql("SELECT count(DISTINCT process_id), count(DISTINCT slice_id) FROM Slice JOIN Track USING (track_id)").fetchall() == [(3, 3)]  # fmt: skip  # noqa: E501
        assert list(trace.manifest["skipped"]) == ["readme.txt"]
    assert (tmp_path / "ranks.trnscope" / "store.json").exists()
