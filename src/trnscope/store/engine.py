"""In-memory DuckDB connections with bounded memory."""

import re
import tempfile
from pathlib import Path
from typing import Any, Final

import duckdb

IMPORT_MEMORY: Final = "80MB"
LINK_MEMORY: Final = "512MB"
"""For joining launches and device slices: tables of several joins are pinned at once."""

TABLE_MEMORY: Final = "512MB"
"""For tables of any width: JSON buffers alone take 64 MiB, row groups of a wide Parquet table more."""

QUERY_MEMORY: Final = "1GB"


def connect(memory_limit: str = QUERY_MEMORY, spill: Path | None = None, threads: int | None = None) -> Any:
    """A connection without a database file. What exceeds the limit spills to `spill` (default: temporary files)."""
    connection = duckdb.connect(":memory:")
    connection.execute(f"SET memory_limit = '{memory_limit}'")
    connection.execute("SET preserve_insertion_order = false; SET enable_progress_bar = false")
    directory = spill if spill is not None else Path(tempfile.gettempdir()) / "trnscope-spill"
    connection.execute(f"SET temp_directory = {literal(str(directory))}")
    if threads is not None:
        connection.execute(f"SET threads = {threads}")
    return connection


def literal(text: str) -> str:
    """A text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def path_literal(path: Path) -> str:
    """A path as an SQL string literal; characters that DuckDB would expand stand for themselves."""
    return literal(re.sub(r"([*?\[])", r"[\1]", str(path)))


def identifier(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
