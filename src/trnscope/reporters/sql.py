"""Renders query results and the list of tables."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.markup import escape

from trnscope.reporters.output import plural, table, text
from trnscope.store.trace import TableInfo


def show(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A result as a table. Numbers are aligned to the right."""
    numeric = [
        bool(rows) and all(isinstance(row[k], int | float) or row[k] is None for row in rows)
        for k in range(len(columns))
    ]
    heads = [(name, "right" if is_number else "left") for name, is_number in zip(columns, numeric, strict=True)]
    with text() as out:
        out.print(table("", heads, [["" if value is None else escape(str(value)) for value in row] for row in rows]))
        out.print(plural(len(rows), "row"))


def list_tables(tables: Sequence[TableInfo], *, as_json: bool) -> None:
    """Names, rows and meaning of the tables."""
    if as_json:
        json.dump([asdict(info) for info in tables], sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    with text() as out:
        for info in tables:
            out.print(f"{info.name:<24}{info.rows:>12,}  {info.doc}", soft_wrap=True)
