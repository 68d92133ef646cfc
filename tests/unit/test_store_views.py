"""Captures as SQL: absolute device rows, missing tables and columns, annotations of the trace."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from handmade import write_capture
from trnscope.errors import TrnscopeError
from trnscope.schema import TABLES
from trnscope.store.capture import open_capture
from trnscope.store.views import ABSOLUTE, connect

PROGRAM_ROWS: dict[str, list[dict[str, Any]]] = {
    "Execution": [
        {"exec_id": 1, "program_id": 5, "device": 0, "start_ns": 100, "end_ns": 130},
        {"exec_id": 2, "program_id": 5, "device": 3, "start_ns": 1000, "end_ns": 1030},
        {"exec_id": 3, "program_id": None, "device": 0, "start_ns": 200, "end_ns": 300},
    ],
    "ProgramInstruction": [
        {"program_id": 5, "start_ts": 0, "end_ts": 10, "duration_ns": 10, "engine": "vector", "id": 0},
        {"program_id": 5, "start_ts": 10, "end_ts": 30, "duration_ns": 20, "engine": "scalar", "id": 1},
    ],
}


def rows(directory: Path, sql: str) -> list[tuple[Any, ...]]:
    with connect(open_capture(directory)) as connection:
        return connection.execute(sql).fetchall()


def test_instructions_are_placed_once_per_execution(tmp_path: Path) -> None:
    directory = write_capture(tmp_path / "a", PROGRAM_ROWS)
    sql = "SELECT exec_id, nc_idx, engine, start_ts, end_ts, duration_ns FROM Instruction ORDER BY start_ts"
    assert rows(directory, sql) == [
        (1, 0, "vector", 100, 110, 10),
        (1, 0, "scalar", 110, 130, 20),
        (2, 3, "vector", 1000, 1010, 10),
        (2, 3, "scalar", 1010, 1030, 20),
    ]


def test_every_table_of_the_schema_is_there_and_empty_when_not_captured(tmp_path: Path) -> None:
    directory = write_capture(tmp_path / "a", {})
    with connect(open_capture(directory)) as connection:
        for name in (*TABLES, *ABSOLUTE, "UserAnnotation"):
            assert connection.execute(f'SELECT count(*) FROM "{name}"').fetchone() == (0,), name


def test_a_missing_optional_column_is_null_and_a_missing_required_one_an_error(tmp_path: Path) -> None:
    directory = write_capture(tmp_path / "a", {})
    (directory / "tables").mkdir()
    path = directory / "tables" / "Step.parquet"
    full = write_capture(tmp_path / "b", {"Execution": PROGRAM_ROWS["Execution"]}) / "tables" / "Execution.parquet"

    table = pq.read_table(full)
    pq.write_table(table.drop_columns(["bytes"]), directory / "tables" / "Execution.parquet")
    assert rows(directory, "SELECT exec_id, bytes FROM Execution ORDER BY exec_id") == [(1, None), (2, None), (3, None)]

    pq.write_table(table.select(["exec_id"]), path)
    with pytest.raises(TrnscopeError, match=r"Step.parquet lacks the columns step, start_ns, end_ns\."):
        connect(open_capture(directory))


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    directory = write_capture(tmp_path / "a", {})
    (directory / "tables").mkdir()
    (directory / "tables" / "Step.parquet").write_bytes(b"PAR1")
    with pytest.raises(TrnscopeError, match=r"Step.parquet is no readable Parquet file"):
        connect(open_capture(directory))


def test_awkward_directory_names(tmp_path: Path) -> None:
    directory = write_capture(tmp_path / "it's [a] *?", PROGRAM_ROWS, trace={"traceEvents": []})
    assert rows(directory, "SELECT count(*) FROM Execution") == [(3,)]
    assert rows(directory, "SELECT count(*) FROM UserAnnotation") == [(0,)]


def test_annotations_come_from_the_trace(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 42, "ts": 1.5, "dur": 2.25}
    trace = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0}],
        "baseTimeNanoseconds": 1_796_000_000_000_000_000,
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": "Spans", "tid": 0, "args": {"name": "python"}},
            event | {"name": "six ops", "args": {"External id": 7}},
            event | {"name": "ProfilerStep#3"},
            event | {"name": "aten::mul", "cat": "cpu_op"},
            event | {"name": "on another", "tid": "Traces"},
        ],
    }
    directory = write_capture(tmp_path / "a", {}, trace=trace)
    assert rows(directory, "SELECT * FROM UserAnnotation ORDER BY name") == [
        ("on another", None, 1_796_000_000_000_001_500, 1_796_000_000_000_003_750),
        ("six ops", 42, 1_796_000_000_000_001_500, 1_796_000_000_000_003_750),
    ]
