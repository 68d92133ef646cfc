"""Renders the answer of `trnscope summary`."""

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from trnscope.analysis.summary import Difference, Summary, compare_regions
from trnscope.reporters.output import duration, microseconds, percent, plural, print_json, table, text
from trnscope.schema import Answer


class SummaryAnswer(Answer):
    """What `--json` prints."""

    captures: list[Summary]
    comparison: list[Difference]
    """Captures beside the first one; empty when there is one."""
    windows_found: int


def report(answer: SummaryAnswer, *, as_json: bool, limit: int | None) -> None:
    """Print the answer as JSON or text; text lists at most `limit` ops."""
    if as_json:
        print_json(answer)
        return
    with text() as out:
        for summary in answer["captures"]:
            _capture(out, summary, limit)
        kind = _kind(answer["captures"][0])
        if answer["comparison"]:
            _comparison(out, f"Windows side by side (device time {kind})", "window", answer["comparison"])
        elif answer["windows_found"] > 1:
            out.print(f"Newest of {answer['windows_found']} windows; --all-windows shows all and compares them.")
        for caveat in answer["caveats"]:
            out.print(f"Note: {caveat}", markup=False)


def _kind(summary: Summary) -> str:
    """What device times of this capture are."""
    return "modelled" if summary["capture"]["is_simulation"] else "measured"


def _capture(out: Console, summary: Summary, limit: int | None) -> None:
    _heading(out, summary)
    _ops(out, summary, limit)
    _host_against_device(out, summary)
    _gaps(out, summary)
    _launches(out, summary)
    _first_uses(out, summary)
    _regions(out, summary)
    if summary["data_quality"]:
        rows = [(row["kind"], f"{row['count']:,}", escape(row["detail"])) for row in summary["data_quality"]]
        _print(out, "Data quality", [("what", "left"), ("count", "right"), ("detail", "left")], rows)


def _heading(out: Console, summary: Summary) -> None:
    capture, totals, kind = summary["capture"], summary["totals"], _kind(summary)
    simulated = capture["is_simulation"]
    values = "values computed" if capture["compute_mode"] == "values" else "shapes only, no values computed"
    lines = [
        ("capture", capture["directory"]),
        ("ran", shlex.join(capture["command"])),
        (
            "device",
            f"{capture['chip']}, {capture['instance']}, LNC {capture['lnc']}; {kind}"
            + (f" (model {capture['model_version']}, calibration {capture['calibration_id']})" if simulated else ""),
        ),
        ("host", f"{capture['host_mode']} host time; {values}; torch {capture['torch_version']}"),
        (
            "window",
            f"{duration(capture['length_ns'])}: {plural(totals['executions'], 'execution')} of "
            f"{plural(totals['programs'], 'program')}, device busy {percent(totals['device_busy_share'])} ({kind})",
        ),
    ]
    for name, value in lines:
        out.print(f"{name:<8} {value}", markup=False, soft_wrap=True)
    out.print()


def _print(out: Console, title: str, columns: list[tuple[str, str]], rows: Sequence[tuple[str, ...]]) -> None:
    out.print(table(title, columns, rows))
    out.print()


def _ops(out: Console, summary: Summary, limit: int | None) -> None:
    shown = summary["ops"][:limit]
    rows = [
        (
            escape(row["op"]),
            f"{row['executions']:,}",
            microseconds(row["device_time_ns"]),
            microseconds(row["mean_ns"]),
            percent(row["share"]),
            f"{microseconds(row['low_ns'])} to {microseconds(row['high_ns'])}",
            row["bound"],
            row["confidence"],
        )
        for row in shown
    ]
    total = summary["totals"]["device_time_ns"]
    if rest := summary["ops"][len(shown) :]:
        left_ns = sum(row["device_time_ns"] for row in rest)
        share = percent(left_ns / total if total else 0.0)
        count = f"{sum(row['executions'] for row in rest):,}"
        name = f"{plural(len(rest), 'more op')} (--limit 0)"
        rows.append((name, count, microseconds(left_ns), "", share, "", "", ""))
    rows.append(("total", f"{summary['totals']['executions']:,}", microseconds(total), "", "", "", "", ""))
    columns = [
        ("op", "left"),
        ("executions", "right"),
        ("device us", "right"),
        ("mean us", "right"),
        ("share", "right"),
        ("model's interval us", "right"),
        ("bound", "left"),
        ("confidence", "left"),
    ]
    _print(out, f"Device time by op ({_kind(summary)})", columns, rows)


def _host_against_device(out: Console, summary: Summary) -> None:
    totals, kind = summary["totals"], _kind(summary)
    rows = [
        (
            f"device {row['device']}",
            f"busy ({kind})",
            plural(row["executions"], "execution"),
            microseconds(row["busy_ns"]),
            percent(row["busy_ns"] / totals["span_ns"] if totals["span_ns"] else 0.0),
        )
        for row in summary["devices"]
    ]
    rows += [
        (
            f"thread {row['thread']}",
            row["category"] + (" (order of threads uncertain)" if row["uncertain_ns"] else ""),
            plural(row["intervals"], "interval"),
            microseconds(row["host_ns"]),
            percent(row["host_ns"] / totals["span_ns"] if totals["span_ns"] else 0.0),
        )
        for row in summary["host"]
    ]
    columns = [("who", "left"), ("what", "left"), ("how often", "right"), ("us", "right"), ("of the window", "right")]
    _print(out, "Host against device", columns, rows)


def _gaps(out: Console, summary: Summary) -> None:
    if not summary["gaps"]:
        return
    rows = [
        (
            f"device {stream['device']} stream {stream['stream']}",
            f"{stream['gaps']:,}",
            microseconds(stream["gap_ns"]),
            microseconds(stream["host_ns"]),
            microseconds(stream["launch_ns"]),
            f"{microseconds(stream['longest'][0]['gap_ns'])} before {escape(stream['longest'][0]['after_op'])}",
        )
        for stream in summary["gaps"]
    ]
    columns = [
        ("stream", "left"),
        ("gaps", "right"),
        ("idle us", "right"),
        ("waiting for the host us", "right"),
        ("for the launch us", "right"),
        ("longest us", "left"),
    ]
    _print(out, f"Gaps between executions ({_kind(summary)})", columns, rows)


def _launches(out: Console, summary: Summary) -> None:
    rows = [
        (
            row["origin"],
            f"{row['launches']:,}",
            "" if row["dispatch_ns"] is None else microseconds(row["dispatch_ns"]),
            microseconds(row["delay_min_ns"]),
            microseconds(row["delay_median_ns"]),
            microseconds(row["delay_p95_ns"]),
            microseconds(row["delay_max_ns"]),
            f"{row['queued']:,}",
        )
        for row in summary["launches"]
    ]
    columns = [
        ("origin", "left"),
        ("launches", "right"),
        ("host us (median)", "right"),
        ("delay us: least", "right"),
        ("median", "right"),
        ("95 %", "right"),
        ("most", "right"),
        ("queued", "right"),
    ]
    if rows:
        _print(out, f"Launches: from submit to start ({_kind(summary)})", columns, rows)


def _first_uses(out: Console, summary: Summary) -> None:
    uses = summary["first_uses"]
    if not uses:
        return
    load_ns = sum(use["load_ns"] for use in uses)
    out.print(
        f"{plural(len(uses), 'program')} loaded for the first time inside the window"
        f"{f', {duration(load_ns)}' if load_ns else ''}: warm up before profiling to leave this out.",
    )
    out.print()


def _regions(out: Console, summary: Summary) -> None:
    for kind, title in (("annotation", "Regions of the script"), ("step", "Profiler steps")):
        regions = [region for region in summary["regions"] if region["kind"] == kind]
        if len(regions) > 1:
            _comparison(out, f"{title} side by side (device time {_kind(summary)})", kind, compare_regions(regions))


def _comparison(out: Console, title: str, what: str, rows: list[Difference]) -> None:
    cells: list[tuple[str, ...]] = [
        (
            escape(row["name"]),
            f"{row['times']:,}",
            f"{row['executions']:,}",
            microseconds(row["device_time_ns"]),
            microseconds(row["host_time_ns"]),
            f"{row['device_ratio']:.2f}x" if "device_ratio" in row else "",
            escape(row.get("main_op", "")),
        )
        for row in rows
    ]
    columns = [
        (what, "left"),
        ("times", "right"),
        ("executions", "right"),
        ("device us", "right"),
        ("host us", "right"),
        ("device time of each against the first", "right"),
        ("most of it", "left"),
    ]
    if not any("main_op" in row for row in rows):
        columns, cells = columns[:-1], [cell[:-1] for cell in cells]
    _print(out, title, columns, cells)
