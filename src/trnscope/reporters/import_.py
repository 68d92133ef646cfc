"""Renders what `trnscope import` did, and its progress."""

from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from trnscope.reporters.output import plural, print_json, text
from trnscope.schema import Answer


class ImportAnswer(Answer):
    """What `--json` prints."""

    directory: str
    imported: int
    kept: int
    skipped: dict[str, str]
    events: int
    rows: dict[str, int]
    issues: int


class ProgressBar:
    """Bytes of decompressed content read, on standard error and only on a terminal.

    How much there will be is not known beforehand, so the bar counts up.
    """

    def __init__(self, *, enabled: bool) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=console,
            disable=not (enabled and console.is_terminal),
            transient=True,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._progress.stop()

    def file(self, name: str, index: int, count: int) -> Callable[[int], None]:
        """Begin another file; the result takes its number of bytes read so far."""
        task = self._progress.add_task(f"{name} ({index}/{count})" if count > 1 else name, total=None)
        return lambda done: self._progress.update(task, completed=done)


def report(answer: ImportAnswer, *, as_json: bool) -> None:
    """Print the answer as JSON or text."""
    if as_json:
        print_json(answer)
        return
    with text() as out:
        known = f", {plural(answer['kept'], 'file')} unchanged" if answer["kept"] else ""
        out.print(f"{plural(answer['imported'], 'file')} imported{known}: {plural(answer['events'], 'event')}")
        out.print(f"in {answer['directory']}", markup=False, soft_wrap=True)
        for name, reason in answer["skipped"].items():
            out.print(f"skipped {name}: {reason}", markup=False, soft_wrap=True)
        if answer["issues"]:
            noun = "kinds of repairs and gaps" if answer["issues"] > 1 else "kind of repairs and gaps"
            out.print(f"{answer['issues']} {noun}: see `trnscope info`")
