"""Every table of an import as a file of its own."""

from pathlib import Path

from trnscope.store.engine import identifier
from trnscope.store.trace import Trace


def export_tables(trace: Trace, directory: Path, kind: str) -> int:
    """Write the tables that have rows to `directory/<Table>.<kind>`; returns their number.

    `kind` is parquet, arrow or csv.
    """
    directory.mkdir(parents=True, exist_ok=True)
    filled = [table for table in trace.tables.values() if table.rows]
    for table in filled:
        trace.sql(f"SELECT * FROM {identifier(table.name)}").write(directory / f"{table.name}.{kind}")
    return len(filled)
