"""Import traces into columnar tables that SQL can ask.

FILE is a trace in any known format, whatever its name and packing; a directory stands for the traces in it, usually
one per rank. The tables go beside the first file, to the user's cache when that place cannot be written, or to --out.
Importing again reads only what changed; the files themselves are never changed.
"""

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from trnscope import __version__
from trnscope.reporters import import_ as reporter
from trnscope.schema import envelope
from trnscope.store.importer import import_traces
from trnscope.store.trace import Trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("paths", type=Path, nargs="+", metavar="FILE", help="trace file, or a directory of traces")
    parser.add_argument("--out", type=Path, metavar="DIR", help="import directory (default: beside the first file)")
    parser.add_argument("--force", action="store_true", help="read everything again")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(options: argparse.Namespace) -> int:
    """Import and print what came of it."""
    with ExitStack() as stack:
        bar = stack.enter_context(reporter.ProgressBar(enabled=not options.json))

        def progress(path: Path, index: int, count: int) -> Callable[[int], None]:
            return bar.file(path.name, index, count)

        result = import_traces(options.paths, options.out, force=options.force, progress=progress)
    with Trace(result.directory) as trace:
        answer: reporter.ImportAnswer = {
            **envelope(__version__, is_simulation=False, caveats=[]),
            "directory": str(result.directory),
            "imported": result.imported,
            "kept": result.kept,
            "skipped": result.skipped,
            "events": sum(entry["source"]["events"] for entry in trace.sources),
            "rows": {name: table.rows for name, table in sorted(trace.tables.items()) if table.rows},
            "issues": sum(len(entry["quality"]) for entry in trace.sources),
        }
    reporter.report(answer, as_json=options.json)
    return 0
