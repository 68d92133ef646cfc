"""Renders the answer of `trnscope info`."""

from trnscope.reporters.output import duration, percent, plural, print_json, table, text
from trnscope.schema import Answer
from trnscope.store.information import Information


class InfoAnswer(Answer, Information):
    """What `--json` prints."""


def report(answer: InfoAnswer, *, as_json: bool) -> None:
    """Print the answer as JSON or text."""
    if as_json:
        print_json(answer)
        return
    executions = answer["device_executions"]
    share = answer["linked_share"]
    with text() as out:
        linked = f", {percent(share)} linked to an op" if share is not None else ""
        out.print(f"{plural(len(answer['sources']), 'file')}, {plural(answer['events'], 'event')}")
        if answer["window_ns"] is not None:
            out.print(f"window {duration(answer['window_ns'])}")
        out.print(
            f"{plural(executions, 'device execution')}, {duration(answer['device_time_ns'])} in sum{linked}"
            if executions
            else "no device executions"
        )
        if answer["devices"]:
            out.print(f"devices: {', '.join(answer['devices'])}", markup=False, soft_wrap=True)
        if answer["ranks"]:
            out.print(f"ranks: {', '.join(map(str, answer['ranks']))}", soft_wrap=True)
        out.print()
        columns = [("file", "left"), ("format", "left"), ("rank", "right"), ("events", "right"),
                   ("executions", "right"), ("device time", "right"), ("linked", "right")]  # fmt: skip
        rows = [
            (
                source["path"],
                source["format"],
                "" if source["rank"] is None else str(source["rank"]),
                f"{source['events']:,}",
                f"{source['device_executions']:,}",
                duration(source["device_time_ns"]) if source["device_executions"] else "",
                percent(source["with_op"] / source["device_executions"]) if source["device_executions"] else "",
            )
            for source in answer["sources"]
        ]
        out.print(table("Files", columns, rows))
        if answer["issues"]:
            out.print()
            found = [
                (issue["detail"] if len(answer["sources"]) == 1 else f"{issue['path']}: {issue['detail']}",
                 issue["severity"], issue["affects"] or "")
                for issue in answer["issues"]
            ]  # fmt: skip
            out.print(
                table("Repairs and gaps", [("what", "left"), ("severity", "left"), ("figures affected", "left")], found)
            )
        for name, reason in answer["skipped"].items():
            out.print(f"skipped {name}: {reason}", markup=False, soft_wrap=True)
