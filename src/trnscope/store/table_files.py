"""Writing tables of the schema to Parquet, batch by batch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from trnscope.schema.columns import Column, Table

_DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())
REPEATING: Final = frozenset({"name", "category", "kind", "phase", "scope", "series", "method", "reason"})
"""Text columns whose values repeat: written as dictionaries."""

_LEVEL: Final = 1


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type that a column is written with."""
    if column.type == "string" and column.name in REPEATING:
        return _DICTIONARY
    if column.type.startswith("list<"):
        return pa.list_(pa.type_for_alias(column.type[5:-1]))
    return pa.type_for_alias(column.type)


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a table."""
    return pa.schema([pa.field(c.name, arrow_type(c), nullable=not c.required) for c in table.columns])


def integers(values: npt.NDArray[np.int64], null: int | None = None) -> pa.Array:
    """An int64 column; entries equal to `null` are missing."""
    values = np.ascontiguousarray(values)
    return pa.array(values, mask=values == null) if null is not None else pa.array(values)


def dictionary(indices: npt.NDArray[np.int64], texts: Sequence[str]) -> pa.Array:
    """A text column by index into `texts`; negative indices are missing."""
    compact = np.ascontiguousarray(indices, dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(compact, mask=compact < 0), pa.array(texts, pa.string()))


class TableFile:
    """One Parquet file in the making. Nothing exists until the first row is there."""

    def __init__(self, table: Table, path: Path) -> None:
        self._table = table
        self._schema = arrow_schema(table)
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[dict[str, Any]] = []
        self.rows = 0

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Append a batch given as Arrow arrays by column; optional columns may be left out."""
        if self._pending:
            self._flush_rows()
        size = len(next(iter(columns.values())))
        if size:
            self._write(columns, size)

    def write_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows; they are collected and written by the thousand."""
        self._pending.extend(dict(row) for row in rows)
        if len(self._pending) >= 16384:
            self._flush_rows()

    def _flush_rows(self) -> None:
        pending, self._pending = self._pending, []
        columns = {}
        for field in self._schema:
            plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            columns[field.name] = pa.array([row.get(field.name) for row in pending], plain)
        self._write(columns, len(pending))

    def _write(self, columns: Mapping[str, pa.Array], size: int) -> None:
        arrays = []
        for field in self._schema:
            array = columns.get(field.name)
            if array is None:
                array = pa.nulls(size, field.type)
            elif array.type != field.type:
                array = array.dictionary_encode() if pa.types.is_dictionary(field.type) else array.cast(field.type)
            arrays.append(array)
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path,
                self._schema,
                compression="zstd",
                compression_level=_LEVEL,
                use_dictionary=[c.name for c in self._table.columns if arrow_type(c) == _DICTIONARY],
                write_statistics=[
                    c.name for c in self._table.columns if c.type != "string" and not c.type.startswith("list")
                ],
            )
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self.rows += size

    def close(self) -> None:
        """Write what is pending and finish the file."""
        if self._pending:
            self._flush_rows()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TableSet:
    """The tables of one source, each in `directory/<Table>.parquet`, opened on first use."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._files: dict[str, TableFile] = {}
        self._external: dict[str, int] = {}

    def add_external(self, name: str, rows: int) -> None:
        """Count a table whose file was written by other means."""
        self._external[name] = rows

    def __getitem__(self, table: Table) -> TableFile:
        file = self._files.get(table.name)
        if file is None:
            file = self._files[table.name] = TableFile(table, self.directory / f"{table.name}.parquet")
        return file

    def discard(self, table: Table) -> None:
        """Remove a table that only served the import."""
        self.close(table)
        self._files.pop(table.name, None)
        (self.directory / f"{table.name}.parquet").unlink(missing_ok=True)

    def rows(self) -> dict[str, int]:
        """Rows written so far, by table."""
        return dict(sorted({**self._external, **{name: file.rows for name, file in self._files.items()}}.items()))

    def close(self, *tables: Table) -> None:
        """Finish the given tables, or all."""
        for name in [t.name for t in tables] or list(self._files):
            if name in self._files:
                self._files[name].close()
