"""Write a trace in another format.

PATH is an import directory, or a trace file or directory, which is imported first. chrome and perfetto hold the whole
timeline in one file; parquet, arrow and csv write every table into a directory.
"""

import argparse
from pathlib import Path

from trnscope import TrnscopeError
from trnscope.reporters import export as reporter
from trnscope.store.export_chrome import export_chrome
from trnscope.store.export_perfetto import export_perfetto
from trnscope.store.export_tables import export_tables
from trnscope.store.trace import open_trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("path", type=Path, metavar="PATH", help="trace file, directory of traces, or import directory")
    parser.add_argument("--format", choices=("chrome", "perfetto", "parquet", "arrow", "csv"), default="chrome")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="file, or directory of tables")


def execute(options: argparse.Namespace) -> int:
    """Export and say what was written."""
    if options.out.exists() and options.out.samefile(options.path):
        raise TrnscopeError(f"{options.out}: would overwrite what is read", "give another path with --out")
    with open_trace(options.path) as trace:
        try:
            match options.format:
                case "chrome":
                    count, noun = export_chrome(trace, options.out), "event"
                case "perfetto":
                    count, noun = export_perfetto(trace, options.out), "packet"
                case _:
                    count, noun = export_tables(trace, options.out, options.format), "table"
        except OSError as error:
            raise TrnscopeError(f"{options.out}: cannot be written: {error.strerror}", "give another path") from None
    reporter.report(count, noun, options.out)
    return 0
