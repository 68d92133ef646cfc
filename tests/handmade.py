"""Captures written by hand, row by row, for tests of what reads them."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trnscope.schema import PROFILE_SCHEMA_VERSION, SCHEMA_VERSION, TABLES, CaptureManifest, Column
from trnscope.store.writer import arrow_table

ZERO: dict[str, Any] = {"int64": 0, "int32": 0, "float64": 0.0, "string": "", "bool": False}


def default(column: Column) -> object:
    """What a row holds in a column that the test says nothing about."""
    return ZERO.get(column.type, []) if column.required else None


def write_table(directory: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """One Parquet file with the schema's columns; a row may leave columns out but may not invent any."""
    table = TABLES[name]
    unknown = {key for row in rows for key in row} - {column.name for column in table.columns}
    assert not unknown, f"{name} has no column {unknown}"
    arrays = {column.name: [row.get(column.name, default(column)) for row in rows] for column in table.columns}
    (directory / "tables").mkdir(exist_ok=True)
    pq.write_table(arrow_table(name, arrays), directory / "tables" / f"{name}.parquet")


def write_capture(
    directory: Path,
    tables: dict[str, list[dict[str, Any]]],
    *,
    trace: dict[str, Any] | None = None,
    window: dict[str, Any] | None = None,
    **manifest: Any,
) -> Path:
    """A complete capture at `directory` with these rows, a window of 1,000 ns from 0 unless told otherwise."""
    directory.mkdir(parents=True)
    for name, rows in tables.items():
        write_table(directory, name, rows)
    if trace is not None:
        (directory / "trace.json").write_text(json.dumps(trace))
    files = [
        {
            "path": str(path.relative_to(directory)),
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    ]
    values: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "profile_schema_version": PROFILE_SCHEMA_VERSION,
        "tool_version": "0.1.0",
        "chip": "trn2",
        "instance": "trn2.3xlarge",
        "lnc": 2,
        "model_version": "1",
        "calibration_id": "none",
        "is_simulation": True,
        "torch_version": "2.13.0",
        "process_id": 7,
        "rank": 0,
        "command": ["train.py"],
        "window": {
            "start_ns": 0,
            "end_ns": 1000,
            "host_mode": "modelled",
            "compute_mode": "values",
            "steps": 0,
            **(window or {}),
        },
        "profile": {},
        "counts": {name: len(rows) for name, rows in tables.items()},
        "caveats": [],
        "files": files,
        **manifest,
    }
    assert set(values) == {field.name for field in dataclasses.fields(CaptureManifest)}
    (directory / "capture.json").write_text(json.dumps(values))
    return directory
