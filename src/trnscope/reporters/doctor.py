"""Renders the answer of `trnscope doctor`."""

from typing import Literal, TypedDict

from trnscope.reporters.output import print_json, text
from trnscope.schema import Answer


class Check(TypedDict):
    """One line of the diagnosis."""

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    fix: str | None
    """The one command that mends it."""


class DoctorAnswer(Answer):
    """What `--json` prints."""

    ok: bool
    """Nothing failed."""
    checks: list[Check]


STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def report(answer: DoctorAnswer, *, as_json: bool) -> None:
    """Print the answer as JSON or text."""
    if as_json:
        print_json(answer)
        return
    width = max(len(check["name"]) for check in answer["checks"])
    with text() as out:
        for check in answer["checks"]:
            out.print(f"{check['status']:<5}", style=STYLES[check["status"]], end="")
            out.print(f"{check['name']:<{width}}  {check['found']}", markup=False, soft_wrap=True)
            if check["fix"] is not None:
                out.print(f"{'':<{width + 7}}mend: {check['fix']}", markup=False, soft_wrap=True)
        failed = sum(check["status"] == "fail" for check in answer["checks"])
        out.print("everything needed works" if not failed else f"{failed} to mend, the first one first")
