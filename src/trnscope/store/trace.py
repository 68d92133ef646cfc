"""An opened import directory: SQL over its tables."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import duckdb

from trnscope.errors import TrnscopeError
from trnscope.schema.capture import CaptureLayout
from trnscope.schema.columns import Table
from trnscope.schema.events import EVENT_MODEL_VERSION, EVENT_TABLES
from trnscope.schema.tables import TABLES
from trnscope.store.capture import open_capture
from trnscope.store.engine import connect, identifier, path_literal
from trnscope.store.layout import MANIFEST, ProgressFactory, default_directory
from trnscope.store.query import Result
from trnscope.store.views import connect as connect_capture

_DUCKDB_TYPES: Final = {
    "int64": "BIGINT",
    "int32": "INTEGER",
    "string": "VARCHAR",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
}


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table of an opened trace."""

    name: str
    rows: int
    doc: str


class Trace:
    """Tables of an import, as views of an in-memory database.

    `sql` runs one statement; `tables` tells what there is. Closing is optional; the object is a context manager.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = read_manifest(directory)
        self._connection = connect()
        self.tables: Mapping[str, TableInfo] = dict(self._create_views())

    @classmethod
    def of_capture(cls, directory: Path) -> Self:
        """A capture of trnscope's own: its tables under their own names, without sources."""
        capture = open_capture(directory)
        trace = cls.__new__(cls)
        trace.directory = directory
        trace.manifest = {"sources": [], "skipped": {}, "capture": capture.manifest}
        trace._connection = connect_capture(capture)
        names = trace._connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        trace.tables = {
            name: TableInfo(name, capture.manifest.counts.get(name, 0), TABLES[name].doc if name in TABLES else "")
            for (name,) in sorted(names)
        }
        return trace

    @property
    def sources(self) -> list[dict[str, Any]]:
        """Per imported file: its row of Source, linking report, rows per table, repairs."""
        found: list[dict[str, Any]] = self.manifest["sources"]
        return found

    def sql(self, query: str) -> Result:
        """Run one SQL statement. Raises TrnscopeError with DuckDB's message for one that fails."""
        try:
            relation = self._connection.sql(query)
        except duckdb.Error as error:
            raise TrnscopeError(
                f"the query failed: {str(error).splitlines()[0]}", f"tables: {', '.join(sorted(self.tables))}"
            ) from None
        return Result(relation)

    def stream(self, query: str, batch_rows: int = 16384) -> Iterator[tuple[Any, ...]]:
        """Rows of a query, in bounded memory."""
        for batch in self._connection.sql(query).to_arrow_reader(batch_rows):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def close(self) -> None:
        """Free the database."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Trace({str(self.directory)!r}, {len(self.sources)} sources, {len(self.tables)} tables)"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{t.name}</td><td>{t.rows}</td><td>{t.doc}</td></tr>" for t in self.tables.values())
        return f"<table><tr><th>table</th><th>rows</th><th></th></tr>{rows}</table>"

    def _create_views(self) -> Iterator[tuple[str, TableInfo]]:
        known = {table.name: table for table in (*EVENT_TABLES, TABLES["DataQuality"])}
        rows: dict[str, int] = {}
        files: dict[str, list[Path]] = {}
        for entry in self.sources:
            base = self.directory / "sources" / f"{entry['source']['source_id']:04d}"
            for name, count in entry["rows"].items():
                rows[name] = rows.get(name, 0) + count
                if count:
                    files.setdefault(name, []).append(base / f"{name}.parquet")
        rows["Source"] = len(self.sources)
        rows["DataQuality"] = sum(len(entry["quality"]) for entry in self.sources)
        for name in ("Source", "DataQuality"):
            if rows[name]:
                files[name] = [self.directory / "tables" / f"{name}.parquet"]
        for name in [*known, *sorted(set(files) - set(known))]:
            table = known.get(name)
            if name in files:
                paths = ", ".join(path_literal(path) for path in files[name])
                body = f"SELECT * FROM read_parquet([{paths}], union_by_name = true)"
            elif table is not None:
                body = empty_select(table)
            else:
                continue
            self._connection.execute(f"CREATE VIEW {identifier(name)} AS {body}")
            described = table or TABLES.get(name)
            doc = described.doc if described is not None else "as in the file"
            yield name, TableInfo(name, rows.get(name, 0), doc)


def empty_select(table: Table) -> str:
    """A SELECT without rows that has the table's columns."""
    columns = []
    for column in table.columns:
        inner = column.type.removeprefix("list<").removesuffix(">")
        kind = _DUCKDB_TYPES[inner] + ("[]" if column.type.startswith("list<") else "")
        columns.append(f"NULL::{kind} AS {identifier(column.name)}")
    return f"SELECT {', '.join(columns)} LIMIT 0"


def read_manifest(directory: Path) -> dict[str, Any]:
    """`store.json` of an import directory. Raises TrnscopeError when it is missing or of another major version."""
    try:
        manifest: dict[str, Any] = json.loads((directory / MANIFEST).read_text())
    except FileNotFoundError:
        raise TrnscopeError(f"{directory}: no complete import", "run `trnscope import` on the trace again") from None
    except (OSError, ValueError) as error:
        raise TrnscopeError(
            f"{directory / MANIFEST}: unreadable: {error}", "remove the directory and import again"
        ) from None
    if manifest.get("event_model", "").split(".")[0] != EVENT_MODEL_VERSION.split(".")[0]:
        raise TrnscopeError(
            f"{directory}: imported with event model {manifest.get('event_model')}, this is {EVENT_MODEL_VERSION}",
            "import the trace again",
        )
    return manifest


def open_trace(
    path: str | Path, *, progress: ProgressFactory = lambda _path, _index, _count: lambda _bytes: None
) -> Trace:
    """Open an import directory or a capture, or a trace file or directory, which is imported first if it is not yet."""
    path = Path(path)
    if (path / MANIFEST).exists():
        return Trace(path)
    if not path.exists():
        raise TrnscopeError(f"{path}: no such file or directory", "check the path")
    if (path / CaptureLayout.MANIFEST).exists():
        return Trace.of_capture(path)
    # the scanner's compiler takes longer to import than an import directory takes to open
    from trnscope.store.importer import import_traces

    result = import_traces([path], default_directory(path), progress=progress)
    return Trace(result.directory)
