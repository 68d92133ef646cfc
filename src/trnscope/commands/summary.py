"""Summary of a capture: what ran, device time by op, host against device, gaps, and regions side by side.

PATH is a capture directory, or one above captures: then the newest window is shown, or all of them beside each other
with --all-windows. Device times of a simulated capture are modelled.
"""

import argparse
from pathlib import Path

from trnscope import __version__
from trnscope.analysis import compare_captures, summarize
from trnscope.reporters import summary as reporter
from trnscope.schema import envelope
from trnscope.store.capture import find_captures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("path", type=Path, metavar="PATH", help="capture directory, or one above captures")
    parser.add_argument("--all-windows", action="store_true", help="every window found, and a comparison of them")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--limit", type=int, default=20, metavar="N", help="ops to list in text; 0 = all (default: %(default)s)"
    )
    parser.add_argument("--verify", action="store_true", help="compare the checksums of all files first")


def execute(options: argparse.Namespace) -> int:
    """Summarise and print."""
    found = find_captures(options.path)
    chosen = found if options.all_windows else found[-1:]
    if options.verify:
        for capture in chosen:
            capture.verify_checksums()
    summaries = [summarize(capture) for capture in chosen]
    caveats = list(dict.fromkeys(caveat for summary in summaries for caveat in summary["caveats"]))
    simulated = any(summary["capture"]["is_simulation"] for summary in summaries)
    answer: reporter.SummaryAnswer = {
        **envelope(__version__, is_simulation=simulated, caveats=caveats),
        "captures": summaries,
        "comparison": compare_captures(summaries) if len(summaries) > 1 else [],
        "windows_found": len(found),
    }
    reporter.report(answer, as_json=options.json, limit=options.limit or None)
    return 0
