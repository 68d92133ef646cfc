"""Runs the SQL modules beside it, one file per question.

Each file in `sql/` opens with a comment that states the question, the rules of the count and the columns of the
answer with their units.
"""

from importlib.resources import files
from typing import Any

import duckdb

QUESTIONS = files(__package__) / "sql"


def ask(connection: duckdb.DuckDBPyConnection, question: str) -> list[dict[str, Any]]:
    """Rows of `sql/<question>.sql`, in its order, with its column names as keys."""
    cursor = connection.execute((QUESTIONS / f"{question}.sql").read_text(encoding="utf-8"))
    columns = [name for name, *_ in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
