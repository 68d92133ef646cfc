"""JSON arrays of objects to Parquet tables, in bounded memory and without a fixed list of columns.

DuckDB reads the spooled array and finds the types; times, dates and other guesses that text could turn into are kept
as text, and nested values as JSON text, so that what was written is what is stored.
"""

import json
from pathlib import Path
from typing import Any, Final

import duckdb

from trnscope.store.byte_source import open_bytes
from trnscope.store.engine import identifier, path_literal
from trnscope.store.json_document import MAX_ELEMENT_BYTES, JsonDocument
from trnscope.store.json_repair import repair
from trnscope.store.quality import Quality

_KEPT_TYPES: Final = frozenset({"BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR", "UBIGINT", "HUGEINT"})
_LISTS: Final = frozenset({"BIGINT[]", "DOUBLE[]", "VARCHAR[]", "UBIGINT[]"})


def table_of_array(
    connection: Any, spooled: Path, name: str, select: str, out: Path, quality: Quality, where: str
) -> tuple[int, list[str]]:
    """Write the array of objects in `spooled` to the Parquet file `out`.

    `select` is an SQL select list over the array's columns, `*` for all; `name` names the view it may refer to.
    Returns the number of rows and the columns of the array. Elements that are no valid JSON objects are mended or
    counted.
    """
    try:
        columns = _columns(connection, spooled)
    except duckdb.Error:
        _salvage(spooled, quality, where)
        columns = _columns(connection, spooled)
    if not columns:
        return 0, []
    declared = ", ".join(f"{identifier(column)}: '{kind}'" for column, kind in columns.items())
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {identifier(name)} AS SELECT * FROM read_json({path_literal(spooled)}, "
        f"format = 'array', columns = {{{declared}}}, maximum_object_size = {MAX_ELEMENT_BYTES})"
    )
    (rows,) = connection.execute(
        f"COPY (SELECT {select} FROM {identifier(name)}) TO {path_literal(out)} (FORMAT parquet, COMPRESSION zstd)"
    ).fetchone()
    return int(rows), list(columns)


def _columns(connection: Any, spooled: Path) -> dict[str, str]:
    described = connection.execute(
        f"DESCRIBE SELECT * FROM read_json({path_literal(spooled)}, format = 'array', sample_size = -1, "
        f"maximum_object_size = {MAX_ELEMENT_BYTES}, map_inference_threshold = -1)"
    ).fetchall()
    columns: dict[str, str] = {}
    for column, kind, *_rest in described:
        if kind in _KEPT_TYPES or kind in _LISTS:
            columns[column] = kind
        else:
            columns[column] = "VARCHAR"
    return {} if list(columns) == ["json"] else columns


def _salvage(spooled: Path, quality: Quality, where: str) -> None:
    """Rewrite the file with the elements that can be read."""
    mended = spooled.with_suffix(".mended")
    with open_bytes(spooled) as reader, mended.open("w") as out:
        document = JsonDocument(reader, quality)
        document.open()
        separator = "["
        while document.peek() not in (-1, ord("]")):
            if document.peek() == ord(","):
                document.position += 1
                continue
            raw = document.capture()
            text = raw.decode("utf-8", "replace")
            fixed = text if _is_object(text) else repair(text)
            if fixed is None or not _is_object(fixed):
                quality.add("unreadable-event", f"{where}: {text[:120]}")
                if not raw:
                    document.position += 1
                continue
            if fixed is not text:
                quality.add("rewritten-event", f"{where}: {text[:120]}")
            out.write(separator + fixed)
            separator = ","
        out.write("]" if separator == "," else "[]")
    mended.replace(spooled)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(_name: str) -> Any:
    raise ValueError
