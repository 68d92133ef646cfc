"""Opening captures: which one is meant, and what is wrong with those that cannot be read."""

import json
from pathlib import Path
from typing import Any

import pytest

from handmade import write_capture
from trnscope.errors import TrnscopeError
from trnscope.store.capture import find_captures, open_capture

EXECUTION: dict[str, list[dict[str, Any]]] = {"Execution": [{"exec_id": 1, "start_ns": 10, "end_ns": 20}]}


def change(directory: Path, **fields: Any) -> None:
    path = directory / "capture.json"
    manifest = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({key: value for key, value in manifest.items() if value is not ...}))


def message(path: Path) -> str:
    with pytest.raises(TrnscopeError) as caught:
        find_captures(path)
    return caught.value.what


def test_windows_come_oldest_first_from_any_level_above(tmp_path: Path) -> None:
    process = tmp_path / "trn2.3xlarge_pid_7"
    write_capture(process / "b", EXECUTION, window={"start_ns": 5, "end_ns": 25})
    write_capture(process / "a", EXECUTION, window={"start_ns": 9, "end_ns": 10})
    write_capture(tmp_path / "trn2.3xlarge_pid_8" / "c", EXECUTION, window={"start_ns": 7, "end_ns": 8})
    names = [capture.directory.name for capture in find_captures(tmp_path)]
    assert names == ["b", "c", "a"]
    assert [capture.directory.name for capture in find_captures(process)] == ["b", "a"]
    (only,) = find_captures(process / "b")
    assert (only.length_ns, only.manifest.chip, only.manifest.window["host_mode"]) == (20, "trn2", "modelled")


def test_a_directory_without_manifest_is_incomplete(tmp_path: Path) -> None:
    killed = write_capture(tmp_path / "trn2.3xlarge_pid_7" / "a", EXECUTION)
    (killed / "capture.json").unlink()
    assert message(killed) == f"{killed} is no complete capture: it has no capture.json."
    assert message(tmp_path) == f"{tmp_path} holds no complete capture. Incomplete: trn2.3xlarge_pid_7/a."


def test_hidden_directories_are_work_in_progress(tmp_path: Path) -> None:
    write_capture(tmp_path / "trn2.3xlarge_pid_7" / ".a", EXECUTION)
    assert message(tmp_path) == f"{tmp_path} holds no complete capture. Incomplete: trn2.3xlarge_pid_7/.a."


def test_wrong_paths(tmp_path: Path) -> None:
    assert message(tmp_path / "no") == f"{tmp_path / 'no'} does not exist."
    (tmp_path / "file").touch()
    assert message(tmp_path / "file") == f"{tmp_path / 'file'} is a file."
    assert message(tmp_path) == f"{tmp_path} holds no complete capture."


def test_another_major_version_is_refused_a_newer_minor_one_read(tmp_path: Path) -> None:
    directory = write_capture(tmp_path / "a", EXECUTION)
    change(directory, schema_version="1.99.0", a_field_of_the_future=[1])
    assert open_capture(directory).manifest.schema_version == "1.99.0"
    change(directory, schema_version="2.0.0")
    assert message(directory) == f"{directory}/capture.json has schema version 2.0.0, this trnscope reads 1.x."


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"chip": ...}, "the field 'chip' is wrong: it is missing."),
        ({"lnc": "2"}, "the field 'lnc' is wrong: it is '2'."),
        ({"lnc": True}, "the field 'lnc' is wrong: it is True."),
        ({"window": {"start_ns": 0}}, "the field 'window' is wrong: it is {'start_ns': 0}."),
        ({"command": [1]}, "the field 'command' is wrong: it is [1]."),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, fields: dict[str, Any], what: str) -> None:
    directory = write_capture(tmp_path / "a", EXECUTION)
    change(directory, **fields)
    assert message(directory) == f"{directory}/capture.json: {what}"


def test_a_manifest_that_is_no_json_or_no_manifest(tmp_path: Path) -> None:
    directory = write_capture(tmp_path / "a", EXECUTION)
    (directory / "capture.json").write_text("{")
    assert message(directory).startswith(f"{directory}/capture.json cannot be read: ")
    (directory / "capture.json").write_text("[]")
    assert message(directory) == f"{directory}/capture.json is no manifest of a capture: it has no schema_version."


def test_missing_short_damaged_and_foreign_files(tmp_path: Path) -> None:
    directory = write_capture(tmp_path / "a", EXECUTION)
    table = directory / "tables" / "Execution.parquet"
    content = table.read_bytes()

    open_capture(directory).verify_checksums()
    table.write_bytes(content[:-1] + b"\0")
    with pytest.raises(TrnscopeError, match=r"Execution\.parquet is damaged"):
        open_capture(directory).verify_checksums()
    table.write_bytes(content[:-1])
    assert message(directory) == f"{table} has {len(content) - 1} bytes instead of {len(content)}."
    table.unlink()
    assert message(directory) == f"{directory} lacks the file tables/Execution.parquet."
    change(directory, files=[{"path": "../../secret", "bytes": 1, "sha256": ""}])
    assert message(directory) == f"{directory}/capture.json names a file outside of the capture: ../../secret."
