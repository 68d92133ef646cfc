"""A capture directory is complete or not there: tables, atomicity, names that are taken, failures."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trnscope.schema import TABLES, CaptureManifest
from trnscope.store import writer
from trnscope.store.capture import find_captures, open_capture
from trnscope.store.writer import CaptureWriter, arrow_schema, arrow_table, replace_file

STEP = {"step": [0, 1], "start_ns": [10, 20], "end_ns": [20, 35]}


def manifest(**changes: object) -> CaptureManifest:
    values: dict[str, object] = {
        "schema_version": "1.0.0",
        "profile_schema_version": "7.4.0",
        "tool_version": "0",
        "chip": "trn2",
        "instance": "trn2.3xlarge",
        "lnc": 2,
        "model_version": "m",
        "calibration_id": "c",
        "is_simulation": True,
        "torch_version": "t",
        "process_id": 1,
        "rank": 0,
        "command": ["a.py"],
        "window": {"start_ns": 0, "end_ns": 40, "host_mode": "modelled", "compute_mode": "values", "steps": 2},
        "profile": {},
        "counts": {},
        "caveats": [],
    }
    return CaptureManifest(**{**values, **changes})


def test_a_committed_capture_reads_back(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "trn2.3xlarge_pid_7", "t1") as capture:
        capture.add_table("Step", STEP)
        capture.add_file("profile_nc_0_session_1.ntff", [b"magic", b"body"])
        assert capture.rows == {"Step": 2}
        directory = capture.commit(manifest())
    assert directory == tmp_path / "trn2.3xlarge_pid_7" / "t1"
    assert pq.read_table(directory / "tables/Step.parquet").to_pydict() == STEP
    read = open_capture(directory)
    read.verify_checksums()
    assert read.manifest.files == [
        {"path": "profile_nc_0_session_1.ntff", "bytes": 9, "sha256": hashlib.sha256(b"magicbody").hexdigest()},
        {
            "path": "tables/Step.parquet",
            "bytes": (directory / "tables/Step.parquet").stat().st_size,
            "sha256": hashlib.sha256((directory / "tables/Step.parquet").read_bytes()).hexdigest(),
        },
    ]
    assert [path.name for path in directory.parent.iterdir()] == ["t1"]


def test_nothing_is_left_without_commit(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "p", "t1") as capture:
        capture.add_table("Step", STEP)
        assert len(list((tmp_path / "p").iterdir())) == 1
    assert list((tmp_path / "p").iterdir()) == []


def test_a_taken_name_is_never_mixed_into(tmp_path: Path) -> None:
    places = []
    for _ in range(3):
        with CaptureWriter(tmp_path, "t1") as capture:
            capture.add_table("Step", STEP)
            places.append(capture.commit(manifest()).name)
    assert places == ["t1", "t1_1", "t1_2"]
    assert len(find_captures(tmp_path)) == 3


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from trnscope.store import writer
    point, out = sys.argv[1], Path(sys.argv[2])
    def die(*_): os.kill(os.getpid(), signal.SIGKILL)
    if point == "before the rename":
        Path.rename = die
    elif point == "before the manifest":
        Path.replace = die
    with writer.CaptureWriter(out / "i_pid_1", "t1") as capture:
        capture.add_table("Step", {"step": [0], "start_ns": [1], "end_ns": [2]})
        if point == "while writing":
            die()
        sys.path.insert(0, sys.argv[3])
        from test_writer import manifest
        capture.commit(manifest())
"""


@pytest.mark.parametrize("point", ["while writing", "before the rename", "before the manifest"])
def test_a_killed_process_leaves_nothing_that_reads_as_complete(tmp_path: Path, point: str) -> None:
    arguments = [sys.executable, "-c", textwrap.dedent(KILLED), point, str(tmp_path), str(Path(__file__).parent)]
    result = subprocess.run(arguments, check=False, capture_output=True, text=True)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert list((tmp_path / "i_pid_1").iterdir()) != []  # it did get that far
    assert list(tmp_path.glob("*/*/capture.json")) == []
    with pytest.raises(Exception, match="holds no complete capture"):
        find_captures(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        CaptureWriter(tmp_path / "p", "t1")


def test_output_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(NotADirectoryError):
        CaptureWriter(tmp_path / "out" / "p", "t1")


def test_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writer.pq, "write_table", full)
    with pytest.raises(OSError, match="No space left"), CaptureWriter(tmp_path, "t1") as capture:
        capture.add_table("Step", STEP)
    assert list(tmp_path.iterdir()) == []


def test_replace_file_keeps_the_old_one_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "capture.json"
    replace_file(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writer.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["capture.json"]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_of_the_contract_has_an_arrow_schema(name: str) -> None:
    schema = arrow_schema(name)
    assert schema.names == [column.name for column in TABLES[name].columns]
    for field, column in zip(schema, TABLES[name].columns, strict=True):
        assert field.nullable is not column.required
        assert field.metadata[b"doc"] == column.doc.encode()
        assert field.metadata.get(b"unit") == (column.unit.encode() if column.unit else None)


def test_types_of_the_contract() -> None:
    assert arrow_schema("Stack").field("files").type == pa.list_(pa.string())
    assert arrow_schema("OpRecord").field("inputs").type == pa.list_(pa.int64())
    assert arrow_schema("ProgramDmaPacketAggregated").field("block_id").type == pa.int32()
    assert arrow_schema("CpuUsage").field("percent").type == pa.float64()


def test_tables_are_checked_against_the_contract() -> None:
    with pytest.raises(ValueError, match="table Step has no column colour"):
        arrow_table("Step", {**STEP, "colour": [1, 2]})
    with pytest.raises(ValueError, match="table Step needs column end_ns"):
        arrow_table("Step", {"step": [0], "start_ns": [1]})
    with pytest.raises(ValueError, match="column end_ns of table Step has 1 nulls"):
        arrow_table("Step", {**STEP, "end_ns": [3, None]})
    with pytest.raises(ValueError, match="Column 1"):
        arrow_table("Step", {**STEP, "start_ns": [1]}).validate()
    modules = {"module_id": [1], "path": ["M"], "type": ["M"]}
    assert arrow_table("Module", modules)["parent_id"].to_pylist() == [None]
    assert arrow_table("Module", {name: [] for name in modules}).num_rows == 0


def test_manifest_is_json_that_a_reader_without_this_package_can_read(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path, "t1") as capture:
        directory = capture.commit(manifest(command=["a\udcff.py"]))
    assert json.loads((directory / "capture.json").read_text())["command"] == ["a\udcff.py"]
