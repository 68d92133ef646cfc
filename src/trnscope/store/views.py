"""Captures as SQL: in-memory DuckDB views over the Parquet tables of one capture.

Every table of the schema is a view, empty when the capture lacks it, so that a query never depends on what a capture
happens to hold. Device rows are stored once per program in relative time; `Instruction`, `DmaPacketAggregated` and
`ActiveTime` are the absolute tables: the join of their `Program*` table with `Execution`, with the columns `exec_id`,
`nc_idx` (logical NeuronCore) and times on the virtual device clock. `UserAnnotation` holds the `record_function`
ranges of `trace.json` (name, thread, start_ns, end_ns, virtual host clock), without torch's own step marks.
"""

import re
import tempfile
from pathlib import Path
from typing import Final

import duckdb
import pyarrow.parquet as pq

from trnscope.errors import TrnscopeError
from trnscope.schema import TABLES, CaptureLayout, Column, Table
from trnscope.store.capture import Capture

ABSOLUTE: Final = {
    "Instruction": "ProgramInstruction",
    "DmaPacketAggregated": "ProgramDmaPacketAggregated",
    "ActiveTime": "ProgramActiveTime",
}
"""Absolute view -> table in time relative to its program's start."""

SQL_TYPES: Final = {
    "int64": "BIGINT",
    "int32": "INTEGER",
    "float64": "DOUBLE",
    "string": "VARCHAR",
    "bool": "BOOLEAN",
    "list<int64>": "BIGINT[]",
    "list<string>": "VARCHAR[]",
}


def connect(capture: Capture, memory_limit: str = "1GB") -> duckdb.DuckDBPyConnection:
    """A connection with one view per table of `schema.TABLES` and the absolute views.

    Work beyond `memory_limit` spills to the system's temporary directory. Raises TrnscopeError when a table lacks a
    column that its schema version requires.
    """
    connection = duckdb.connect(":memory:")
    spill = Path(tempfile.gettempdir()) / "trnscope-spill"
    connection.execute(f"SET memory_limit = {_text(memory_limit)}; SET temp_directory = {_text(str(spill))}")
    for table in TABLES.values():
        connection.execute(_table_view(capture, table))
    for name, relative in ABSOLUTE.items():
        connection.execute(_absolute_view(name, relative))
    connection.execute(_annotation_view(capture))
    return connection


def _table_view(capture: Capture, table: Table) -> str:
    path = capture.table_path(table)
    if path is None:
        columns = ", ".join(_null(column) for column in table.columns)
        return f'CREATE VIEW "{table.name}" AS SELECT {columns} WHERE false'
    try:
        present = set(pq.read_schema(path).names)
    except (OSError, ValueError) as error:
        raise TrnscopeError(f"{path} is no readable Parquet file: {error}.", "Copy the capture again.") from None
    missing = [column.name for column in table.columns if column.required and column.name not in present]
    if missing:
        raise TrnscopeError(
            f"{path} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}.",
            f"It was written by trnscope {capture.manifest.tool_version}; capture again with this version.",
        )
    columns = ", ".join(f'"{column.name}"' if column.name in present else _null(column) for column in table.columns)
    return f'CREATE VIEW "{table.name}" AS SELECT {columns} FROM read_parquet({_text(str(path), glob=True)})'


def _absolute_view(name: str, relative: str) -> str:
    rest = ", ".join(
        f'p."{column.name}"' for column in TABLES[relative].columns if column.name not in ("start_ts", "end_ts")
    )
    return (
        f'CREATE VIEW "{name}" AS SELECT e.exec_id, e.device AS nc_idx, e.start_ns + p.start_ts AS start_ts, '
        f'e.start_ns + p.end_ts AS end_ts, {rest} FROM Execution AS e JOIN "{relative}" AS p USING (program_id)'
    )


def _annotation_view(capture: Capture) -> str:
    path = capture.directory / CaptureLayout.TRACE
    if not path.is_file():
        return (
            "CREATE VIEW UserAnnotation AS SELECT CAST(NULL AS VARCHAR) AS name, CAST(NULL AS BIGINT) AS thread, "
            "CAST(NULL AS BIGINT) AS start_ns, CAST(NULL AS BIGINT) AS end_ns WHERE false"
        )
    event = "STRUCT(ph VARCHAR, cat VARCHAR, name VARCHAR, ts DOUBLE, dur DOUBLE, tid JSON)[]"
    return f"""
        CREATE VIEW UserAnnotation AS
        SELECT
            e.name,
            TRY_CAST(e.tid AS BIGINT) AS thread,
            base + CAST(round(e.ts * 1000) AS BIGINT) AS start_ns,
            base + CAST(round((e.ts + e.dur) * 1000) AS BIGINT) AS end_ns
        FROM (
            SELECT unnest(traceEvents) AS e, coalesce(baseTimeNanoseconds, 0) AS base
            FROM read_json({_text(str(path), glob=True)}, format = 'unstructured',
                columns = {{traceEvents: '{event}', baseTimeNanoseconds: 'BIGINT'}},
                maximum_object_size = {path.stat().st_size + 1024})
        )
        WHERE e.ph = 'X' AND e.cat = 'user_annotation' AND NOT starts_with(e.name, 'ProfilerStep#')
    """


def _null(column: Column) -> str:
    return f'CAST(NULL AS {SQL_TYPES[column.type]}) AS "{column.name}"'


def _text(value: str, *, glob: bool = False) -> str:
    """A SQL string literal; with `glob`, characters that DuckDB would expand in a path stand for themselves."""
    if glob:
        value = re.sub(r"([*?\[])", r"[\1]", value)
    return "'" + value.replace("'", "''") + "'"
