"""JSON arrays of objects to Parquet tables, in bounded memory and without a fixed list of columns.

DuckDB reads the spooled array and finds the types; times, dates and other guesses that text could turn into are kept
as text, and nested values as JSON text, so that what was written is what is stored.
"""

import json
import math
from pathlib import Path
from typing import Any, Final

import duckdb

from trnscope.errors import TrnscopeError
from trnscope.store.byte_source import open_bytes
from trnscope.store.engine import identifier, path_literal
from trnscope.store.json_document import JsonDocument
from trnscope.store.json_repair import repair
from trnscope.store.quality import Quality

_OBJECT_BYTES: Final = 16 << 20
"""Largest element; DuckDB takes buffers of twice this size per thread whatever the file's size."""

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
    for attempt in range(3):
        try:
            return _write(connection, spooled, name, select, out)
        except duckdb.Error as error:
            if attempt == 2:
                raise TrnscopeError(f"{where}: {str(error).splitlines()[0]}", "the array cannot be read") from None
        _salvage(spooled, quality, where, as_text=attempt == 1)
    raise AssertionError("unreachable")


def _write(connection: Any, spooled: Path, name: str, select: str, out: Path) -> tuple[int, list[str]]:
    columns = _columns(connection, spooled)
    if not columns:
        return 0, []
    declared = ", ".join(f"{identifier(column)}: '{kind}'" for column, kind in columns.items())
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {identifier(name)} AS SELECT * FROM read_json({path_literal(spooled)}, "
        f"format = 'array', columns = {{{declared}}}, maximum_object_size = {_OBJECT_BYTES})"
    )
    (rows,) = connection.execute(
        f"COPY (SELECT {select} FROM {identifier(name)}) TO {path_literal(out)} (FORMAT parquet, COMPRESSION zstd)"
    ).fetchone()
    return int(rows), list(columns)


def _columns(connection: Any, spooled: Path) -> dict[str, str]:
    described = connection.execute(
        f"DESCRIBE SELECT * FROM read_json({path_literal(spooled)}, format = 'array', sample_size = -1, "
        f"maximum_object_size = {_OBJECT_BYTES}, map_inference_threshold = -1)"
    ).fetchall()
    columns: dict[str, str] = {}
    for column, kind, *_rest in described:
        if kind in _KEPT_TYPES or kind in _LISTS:
            columns[column] = kind
        else:
            columns[column] = "VARCHAR"
    return {} if list(columns) == ["json"] else columns


def _salvage(spooled: Path, quality: Quality, where: str, *, as_text: bool) -> None:
    """Rewrite the file with the elements that can be read, each key once; `as_text`: as one column of JSON text."""
    mended = spooled.with_suffix(".mended")
    with open_bytes(spooled) as reader, mended.open("w") as out:
        document = JsonDocument(reader, quality)
        document.open()
        separator = "["
        while (byte := document.peek()) not in (-1, ord("]")):
            raw = b"" if byte == ord(",") else document.capture()
            if not raw:
                document.position += 1
                continue
            text = raw.decode("utf-8", "replace")
            element = _object(text)
            if element is None:
                element = _object(repair(text) or "")
                if element is not None:
                    quality.add("rewritten-event", f"{where}: {text[:120]}")
            if element is None:
                quality.add("unreadable-event", f"{where}: {text[:120]}")
                element = {"unreadable": text}
            out.write(separator + json.dumps({"json": json.dumps(element)} if as_text else element))
            separator = ","
        out.write("]" if separator == "," else "[]")
    mended.replace(spooled)


def _object(text: str) -> dict[str, Any] | None:
    """The object of a JSON text, in finite numbers; keys that differ in case only get an underscore."""
    try:
        value = json.loads(text, parse_constant=_nothing, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    taken: set[str] = set()
    result = {}
    for key, content in value.items():
        # DuckDB's columns do not distinguish case, and texts must be valid Unicode
        name = key.encode("utf-8", "replace").decode() or "_"
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        result[name] = content
    return result


def _nothing(_name: str) -> None:
    return None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None
