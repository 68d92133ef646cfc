"""What a trace holds: format, events, device executions and their time, how many are linked to an op, ranks, window,
and every repair and gap.

PATH is an import directory, or a trace file or directory, which is imported first.
"""

import argparse
from pathlib import Path

from trnscope import TrnscopeError, __version__
from trnscope.reporters import info as reporter
from trnscope.schema import envelope
from trnscope.store.information import describe
from trnscope.store.trace import open_trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("path", type=Path, metavar="PATH", help="trace file, directory of traces, or import directory")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(options: argparse.Namespace) -> int:
    """Describe and print."""
    with open_trace(options.path) as trace:
        if "Slice" not in trace.tables:
            raise TrnscopeError(
                f"{options.path}: a capture of trnscope's own, which needed no import",
                "use `trnscope summary` or `sql`",
            )
        described = describe(trace)
    affected = [issue for issue in described["issues"] if issue["affects"]]
    caveats = list(dict.fromkeys(f"{issue['detail']}: {issue['affects']} may be wrong" for issue in affected))
    answer: reporter.InfoAnswer = {
        **envelope(__version__, is_simulation=False, caveats=caveats),
        **described,
    }
    reporter.report(answer, as_json=options.json)
    return 0
