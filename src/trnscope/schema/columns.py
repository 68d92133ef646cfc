"""What a table is made of: its columns, their Arrow types and units."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `type` is an Arrow type name (`int64`, `string`, `list<int64>`, ...)."""

    name: str
    type: str
    doc: str
    unit: str | None = None
    required: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a capture: a Parquet file under `tables/`."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    explorer: bool = False
    """Whether the published Neuron Explorer schema has this table."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError(f"table {self.name} names a column twice: {names}")


def ns(name: str, doc: str, required: bool = True) -> Column:
    """A column of integer nanoseconds."""
    return Column(name, "int64", doc, "ns", required)


def integer(name: str, doc: str, unit: str | None = None, required: bool = True) -> Column:
    """A column of integers: ids, counts, bytes."""
    return Column(name, "int64", doc, unit, required)


def text(name: str, doc: str, required: bool = True) -> Column:
    """A column of strings."""
    return Column(name, "string", doc, None, required)
