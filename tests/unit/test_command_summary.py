"""`trnscope summary`: text, JSON, choice of windows, errors."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from example_capture import write_example
from handmade import write_capture
from trnscope import __version__
from trnscope.commands.main import main
from trnscope.schema import SCHEMA_VERSION

Snapshot = Callable[[str, str], None]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """An output directory with two windows, the second one measured on a chip."""
    process = tmp_path / "trn2.3xlarge_pid_7"
    write_example(process / "first", caveats=["Spoken once."])
    tables = {"Execution": [{"exec_id": 1, "name": "nc", "start_ns": 5, "end_ns": 9, "device_time_ns": 4}]}
    window = {"start_ns": 2000, "end_ns": 2010}
    write_capture(process / "second", tables, window=window, is_simulation=False, caveats=["Spoken once."])
    return tmp_path


def test_text(output: Path, capsys: pytest.CaptureFixture[str], snapshot: Snapshot) -> None:
    assert main(["summary", str(output / "trn2.3xlarge_pid_7" / "first")]) == 0
    snapshot(capsys.readouterr().out.replace(str(output), "OUTPUT"), "summary.txt")


def test_text_of_all_windows(output: Path, capsys: pytest.CaptureFixture[str], snapshot: Snapshot) -> None:
    assert main(["summary", str(output), "--all-windows", "--limit", "2"]) == 0
    snapshot(capsys.readouterr().out.replace(str(output), "OUTPUT"), "summary_all_windows.txt")


def test_the_newest_window_is_the_default(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(output)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"capture  {output}/trn2.3xlarge_pid_7/second\n")
    assert "modelled" not in text.replace("modelled host time", ""), "a measured capture is not called modelled"
    assert text.endswith("Newest of 2 windows; --all-windows shows all and compares them.\nNote: Spoken once.\n")


def test_json(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(output), "--all-windows", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == [
        "schema_version",
        "tool_version",
        "is_simulation",
        "caveats",
        "captures",
        "comparison",
        "windows_found",
    ]
    assert (answer["schema_version"], answer["tool_version"]) == (SCHEMA_VERSION, __version__)
    assert (answer["is_simulation"], answer["caveats"], answer["windows_found"]) == (True, ["Spoken once."], 2)
    first, second = answer["captures"]
    assert (first["capture"]["is_simulation"], second["capture"]["is_simulation"]) == (True, False)
    assert [row["op"] for row in first["ops"]] == [
        "neuron_graph_inference_0",
        "aten::mul.Tensor",
        "aten::sort",
        "aten::_copy_from",
        "aten::add.Tensor",
    ]
    assert [(row["name"], row["executions"], row["device_time_ns"]) for row in answer["comparison"]] == [
        ("first", 6, 870),
        ("second", 1, 4),
    ]


def test_a_wrong_path_is_one_message_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"trnscope summary: {tmp_path} holds no complete capture.\n"
        "  Make one with `trnscope run script.py`, or profile with a NeuronConfig.\n"
    )


def test_verify_finds_a_damaged_file(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = output / "trn2.3xlarge_pid_7" / "first" / "tables" / "Step.parquet"
    assert main(["summary", str(output), "--all-windows", "--verify"]) == 0
    content = bytearray(table.read_bytes())
    content[8] ^= 1
    table.write_bytes(content)
    assert main(["summary", str(output), "--all-windows", "--verify"]) == 2
    assert f"{table} is damaged" in capsys.readouterr().err


def test_names_with_markup_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"exec_id": 1, "op_id": 0, "start_ns": 0, "end_ns": 1}
    op = {"op_id": 0, "op": "[bold]op[/nothing]"}
    write_capture(tmp_path / "a", {"Execution": [row], "OpRecord": [op]}, caveats=["[red]"], command=["[x]"])
    assert main(["summary", str(tmp_path / "a")]) == 0
    text = capsys.readouterr().out
    assert "[bold]op[/nothing]" in text
    assert "Note: [red]" in text
