"""Results of SQL queries in the shapes people want."""

import csv
import io
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from trnscope.errors import TrnscopeError

_SHOWN: Final = 50


class Result:
    """One query's result; nothing is computed before a shape is asked for. Each shape computes it once."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        self._table: pa.Table | None = None

    def arrow(self) -> pa.Table:
        """As an Arrow table."""
        if self._table is None:
            try:
                self._table = self._relation.to_arrow_table() if self._relation is not None else pa.table({})
            except duckdb.Error as error:
                raise TrnscopeError(f"the query failed: {str(error).splitlines()[0]}") from None
        return self._table

    def df(self) -> Any:
        """As a pandas DataFrame (needs pandas)."""
        return _needs("pandas", self.arrow().to_pandas)

    def pl(self) -> Any:
        """As a Polars DataFrame (needs polars)."""

        def convert() -> Any:
            import polars

            return polars.from_arrow(self.arrow())

        return _needs("polars", convert)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """As a list of tuples."""
        return list(zip(*(column.to_pylist() for column in self.arrow().columns), strict=True))

    def dicts(self) -> list[dict[str, Any]]:
        """As a list of dicts."""
        rows: list[dict[str, Any]] = self.arrow().to_pylist()
        return rows

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        names: list[str] = self.arrow().column_names
        return names

    def csv(self) -> str:
        """As CSV text with a header."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.fetchall())
        return out.getvalue()

    def write(self, path: Path) -> None:
        """To a file: .parquet, .arrow (or .feather) or .csv by its suffix."""
        match path.suffix:
            case ".parquet":
                import pyarrow.parquet as pq

                pq.write_table(self.arrow(), path, compression="zstd")
            case ".arrow" | ".feather":
                import pyarrow.feather as pa_feather

                pa_feather.write_feather(self.arrow(), str(path))
            case ".csv":
                import pyarrow.csv as pa_csv

                pa_csv.write_csv(self.arrow(), path)
            case other:
                raise TrnscopeError(f"{path}: unknown kind of file {other!r}", "use .parquet, .arrow, .feather or .csv")

    def __repr__(self) -> str:
        table = self.arrow()
        lines = ["\t".join(table.column_names)]
        lines += ["\t".join(map(str, row)) for row in Result._head(table)]
        if table.num_rows > _SHOWN:
            lines.append(f"... {table.num_rows} rows")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        table = self.arrow()
        head = "".join(f"<th>{escape(name)}</th>" for name in table.column_names)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>" for row in Result._head(table)
        )
        note = f"<p>{table.num_rows} rows</p>" if table.num_rows > _SHOWN else ""
        return f"<table><tr>{head}</tr>{body}</table>{note}"

    @staticmethod
    def _head(table: pa.Table) -> list[tuple[Any, ...]]:
        return list(zip(*(column.to_pylist() for column in table.slice(0, _SHOWN).columns), strict=True))


def _needs(package: str, convert: Any) -> Any:
    try:
        return convert()
    except ImportError:
        raise TrnscopeError(f"{package} is not installed", f"pip install {package}") from None
