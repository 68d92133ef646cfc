"""trnscope import, info and sql, as a user calls them."""

import json
from pathlib import Path

import pytest

import trnscope
from example_capture import write_example
from trnscope.commands.main import main

EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 10},
    {"ph": "X", "cat": "cuda_runtime", "name": "go", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": {"correlation": 7}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5, "dur": 4, "args": {"correlation": 7}},
    {"ph": "X", "cat": "kernel", "name": "lost", "pid": 0, "tid": 7, "ts": 10, "dur": -4, "args": {"correlation": 8}},
]  # fmt: skip


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": EVENTS}))
    return path


def test_import_says_where_and_what(trace_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(trace_file), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["directory"] == f"{trace_file}.trnscope"
    assert (answer["imported"], answer["kept"], answer["events"], answer["rows"]["Slice"]) == (1, 0, 4, 4)
    assert main(["import", str(trace_file)]) == 0
    assert "0 files imported, 1 file unchanged: 4 events" in capsys.readouterr().out


def test_info_tells_executions_links_and_repairs(trace_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(trace_file), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["device_executions"], answer["device_time_ns"], answer["linked_share"]) == (2, 4000, 0.5)
    assert answer["window_ns"] == 10000
    assert answer["repairs"] == {
        "missing-launch": 1, "missing-rank": 1, "negative-duration": 1, "no-clock-base": 1,
    }  # fmt: skip
    assert any("time may be wrong" in caveat for caveat in answer["caveats"])
    assert main(["info", str(trace_file)]) == 0
    out = capsys.readouterr().out
    assert "2 device executions, 4 us in sum, 50.0 % linked to an op" in out
    assert "1 device slices have no launch record" in out


def test_sql_prints_tables_csv_and_json(trace_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT name, duration_ns FROM Slice WHERE kind = 'kernel' ORDER BY 1"
    assert main(["sql", str(trace_file), query, "--format", "csv"]) == 0
    assert capsys.readouterr().out == "name,duration_ns\ngemm,4000\nlost,0\n"
    assert main(["sql", str(trace_file), query, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"name": "gemm", "duration_ns": 4000}
    assert main(["sql", str(trace_file), query]) == 0
    assert "2 rows" in capsys.readouterr().out
    assert main(["sql", str(trace_file)]) == 0
    assert "KernelLink" in capsys.readouterr().out


def test_mistakes_are_one_message(trace_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", str(trace_file), "SELEC 1"]) == 2
    assert "the query failed" in capsys.readouterr().err
    assert main(["info", str(tmp_path / "nowhere")]) == 2
    assert "no such file or directory" in capsys.readouterr().err


def test_a_capture_of_our_own_answers_sql(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = write_example(tmp_path / "capture")
    with trnscope.open(capture) as trace:
        assert trace.sql("SELECT count(*) FROM Execution").fetchall() == [(6,)]
        assert "Execution" in trace.tables
    assert main(["info", str(capture)]) == 2
    assert "trnscope summary" in capsys.readouterr().err
