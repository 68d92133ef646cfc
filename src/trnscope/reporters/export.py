"""Renders what `trnscope export` wrote."""

from pathlib import Path

from trnscope.reporters.output import plural, text


def report(count: int, noun: str, out: Path) -> None:
    """One line."""
    with text() as console:
        console.print(f"{plural(count, noun)} in {out}", markup=False, soft_wrap=True)
