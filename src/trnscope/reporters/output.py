"""What the reporters share: consoles, tables, JSON and numbers with their units."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

PLAIN_WIDTH: Final = 120
"""Columns when the output is no terminal, so that files and pipes get the same text everywhere."""


@contextmanager
def text() -> Iterator[Console]:
    """A console on standard output.

    On a terminal it has colours and the terminal's width. Anywhere else the text is plain, of a fixed width and without
    blanks at the ends of lines, the same on every machine.
    """
    if sys.stdout.isatty():
        yield Console(highlight=False)
        return
    buffer = StringIO()
    yield Console(file=buffer, width=PLAIN_WIDTH, highlight=False)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines()))


def print_json(answer: Mapping[str, Any]) -> None:
    """One JSON object."""
    json.dump(answer, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def table(title: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> Table:
    """A table; `columns` are heads with `left` or `right`. The first column gives way when the width is short."""
    result = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False
    )
    for index, (head, justify) in enumerate(columns):
        right = justify == "right"
        result.add_column(
            head, justify="right" if right else "left", no_wrap=index > 0, overflow="fold" if index == 0 else "ellipsis"
        )
    for row in rows:
        result.add_row(*row)
    return result


def microseconds(time_ns: int) -> str:
    """`1,234.5` for 1,234,500 ns: for columns whose head names the unit."""
    return f"{time_ns / 1000:,.1f}"


def duration(time_ns: int) -> str:
    """A time with the unit that suits it: `830 ns`, `12.3 us`, `4.56 ms`, `7.89 s`."""
    for limit, unit in ((10**3, "ns"), (10**6, "us"), (10**9, "ms")):
        if abs(time_ns) < limit:
            scale = limit // 1000
            return f"{time_ns} ns" if scale == 1 else f"{time_ns / scale:.3g} {unit}"
    return f"{time_ns / 10**9:,.2f} s"


def percent(share: float) -> str:
    """`12.3 %` for a share of 0.123."""
    return f"{share * 100:.1f} %"


def plural(count: int, noun: str) -> str:
    """`1 gap`, `2,000 gaps`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
