"""Ask a trace with SQL (DuckDB's dialect).

PATH is an import directory, a capture, or a trace file or directory, which is imported first. Without a query, the
tables are listed. --out writes the result by its suffix: .parquet, .arrow, .csv.
"""

import argparse
import json
import sys
from pathlib import Path

from trnscope import TrnscopeError
from trnscope.reporters import sql as reporter
from trnscope.store.trace import open_trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("path", type=Path, metavar="PATH", help="trace file, directory of traces, or import directory")
    parser.add_argument("query", nargs="?", metavar="SQL", help="one statement, or - to read it from standard input")
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table", help="default: %(default)s")
    parser.add_argument("--json", action="store_const", dest="format", const="json", help="the same as --format json")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result to a file")


def execute(options: argparse.Namespace) -> int:
    """Run the query and print or write its result."""
    query = sys.stdin.read() if options.query == "-" else options.query
    with open_trace(options.path) as trace:
        if query is None:
            reporter.list_tables(list(trace.tables.values()), as_json=options.format == "json")
            return 0
        result = trace.sql(query)
        if options.out is not None:
            try:
                result.write(options.out)
            except OSError as error:
                raise TrnscopeError(f"{options.out}: cannot be written: {error.strerror}") from None
        elif options.format == "csv":
            sys.stdout.write(result.csv())
        elif options.format == "json":
            json.dump(result.dicts(), sys.stdout, indent=1, default=str)
            sys.stdout.write("\n")
        else:
            reporter.show(result.columns, result.fetchall())
    return 0
