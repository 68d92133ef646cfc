"""Writes a capture directory so that nobody ever sees a half-written one.

Everything is written into a hidden directory beside the final one, flushed to disk and renamed; `capture.json` is put
into place last. A killed process leaves at most a hidden directory, or one without `capture.json`: both read as
incomplete.
"""

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from trnscope.schema.capture import CaptureLayout, CaptureManifest, FileEntry
from trnscope.schema.tables import TABLES

Columns = Mapping[str, Any]
"""Column name -> numpy array, Arrow array or list; a missing optional column is null."""

_ATTEMPTS: Final = 1000


@cache
def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of a table of the contract. Units and descriptions are field metadata.

    Raises:
        KeyError: no such table.
    """
    fields = []
    for column in TABLES[table].columns:
        metadata = {"doc": column.doc} | ({"unit": column.unit} if column.unit else {})
        fields.append(pa.field(column.name, _arrow_type(column.type), not column.required, metadata))
    return pa.schema(fields)


def _arrow_type(name: str) -> pa.DataType:
    if name.startswith("list<"):
        return pa.list_(_arrow_type(name[5:-1]))
    return pa.type_for_alias(name)


def arrow_table(table: str, columns: Columns) -> pa.Table:
    """A table of the contract from its columns.

    Raises:
        ValueError: a column that the table does not have, a required one that is missing or has nulls, or columns of
            different lengths.
    """
    schema = arrow_schema(table)
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise ValueError(f"table {table} has no column {', '.join(sorted(unknown))}")
    rows = len(next(iter(columns.values()))) if columns else 0
    arrays = []
    for field in schema:
        if field.name not in columns:
            if not field.nullable:
                raise ValueError(f"table {table} needs column {field.name}")
            arrays.append(pa.nulls(rows, field.type))
            continue
        values = columns[field.name]
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            array = values if values.type == field.type else values.cast(field.type)
        else:
            array = pa.array(values, field.type)
        if not field.nullable and array.null_count:
            raise ValueError(f"column {field.name} of table {table} has {array.null_count} nulls")
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=schema)


class CaptureWriter:
    """One capture directory in the making; a context manager that removes what was not committed.

    Args:
        parent: `<out>/<instance>_pid_<pid>`; made when missing.
        name: wanted name of the directory (a timestamp). When it is taken, the next free one is used.

    Raises:
        OSError: the directory cannot be written; also from the other methods.
    """

    def __init__(self, parent: Path, name: str) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        self._parent = parent
        self._name = name
        self._work = parent / f".{name}.{os.getpid()}.{secrets.token_hex(4)}.incomplete"
        self._work.mkdir()
        (self._work / CaptureLayout.TABLES).mkdir()
        self._files: list[FileEntry] = []
        self._rows: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._work, ignore_errors=True)

    @property
    def rows(self) -> dict[str, int]:
        """Rows per table written so far."""
        return dict(self._rows)

    def add_table(self, name: str, table: Columns | pa.Table) -> None:
        """Write one table; columns are checked against the contract."""
        if isinstance(table, pa.Table):
            table = {column: table[column] for column in table.column_names}
        arrow = arrow_table(name, table)
        relative = CaptureLayout.table(name)
        # Ids and times grow steadily: as differences they are small, and a dictionary of them would be futile.
        pq.write_table(
            arrow,
            self._work / relative,
            compression="zstd",
            use_dictionary=[field.name for field in arrow.schema if field.type == pa.string()],
            column_encoding={f.name: "DELTA_BINARY_PACKED" for f in arrow.schema if f.type == pa.int64()},
        )
        self._rows[name] = arrow.num_rows
        self._files.append(_finished(self._work, relative))

    def add_file(self, relative: str, parts: Sequence[bytes]) -> None:
        """Write one other file from its consecutive parts."""
        with (self._work / relative).open("wb") as file:
            file.writelines(parts)
        self._files.append(_finished(self._work, relative))

    def commit(self, manifest: CaptureManifest) -> Path:
        """Put the directory into place and complete it with its manifest; returns where it is."""
        _sync(self._work / CaptureLayout.TABLES)
        _sync(self._work)
        final = self._claim()
        manifest.files = sorted(self._files, key=lambda entry: entry["path"])
        write_manifest(final, manifest)
        _sync(self._parent)
        return final

    def _claim(self) -> Path:
        for attempt in range(_ATTEMPTS):
            final = self._parent / (self._name if attempt == 0 else f"{self._name}_{attempt}")
            try:
                # An empty directory of that name would be replaced, one with files raises: no capture is lost.
                self._work.rename(final)
            except OSError:
                if not final.exists():
                    raise
            else:
                return final
        raise FileExistsError(f"{self._parent / self._name} and {_ATTEMPTS - 1} names after it are taken")


def write_manifest(directory: Path, manifest: CaptureManifest) -> None:
    """Write `capture.json` so that it is either the old one or the new one, whatever happens."""
    text = json.dumps(asdict(manifest), indent=1, ensure_ascii=True) + "\n"
    replace_file(directory / CaptureLayout.MANIFEST, text.encode())


def replace_file(path: Path, content: bytes) -> None:
    """Atomically write a file, flushed to disk.

    Raises:
        OSError: it cannot be written; nothing is left behind then.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def file_entry(directory: Path, relative: str) -> FileEntry:
    """Size and checksum of a file of a capture."""
    with (directory / relative).open("rb") as file:
        return {
            "path": relative,
            "bytes": os.fstat(file.fileno()).st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


def _finished(directory: Path, relative: str) -> FileEntry:
    _sync(directory / relative)
    return file_entry(directory, relative)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
