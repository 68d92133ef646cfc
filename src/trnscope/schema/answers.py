"""The shape that every `--json` answer shares."""

from typing import Required, TypedDict

from trnscope.schema.version import SCHEMA_VERSION


class Answer(TypedDict, total=False):
    """Common fields of a JSON answer; each command adds its own beside them."""

    schema_version: Required[str]
    tool_version: Required[str]
    is_simulation: Required[bool]
    caveats: Required[list[str]]


def envelope(tool_version: str, *, is_simulation: bool, caveats: list[str]) -> Answer:
    """The common fields, to be extended by a command's own."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool_version": tool_version,
        "is_simulation": is_simulation,
        "caveats": caveats,
    }
