"""Writes docs/schema.md, the page about tables, records and vocabularies, from the package `trnscope.schema`."""

import dataclasses
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

from trnscope.schema import (
    LOG_DTYPE,
    PROFILE_SCHEMA_VERSION,
    SCHEMA_VERSION,
    TABLES,
    CaptureManifest,
    Table,
    vocabulary,
)
from trnscope.schema import records as record_module
from trnscope.schema.answers import Answer
from trnscope.schema.capture import FileEntry, WindowInfo
from trnscope.schema.events import EVENT_MODEL_VERSION, EVENT_TABLES

PAGE = Path(__file__).parents[1] / "docs" / "schema.md"


def type_name(kind: object) -> str:
    """A type as one would write it: `int`, `list[FileEntry]`."""
    name = kind.__name__ if type(kind) is type else str(kind)
    return re.sub(r"\b[a-z_]+(\.[a-z_]+)*\.(?=[A-Z])", "", name)


def grid(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> Iterator[str]:
    """A Markdown table."""
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""


def table_section(table: Table) -> Iterator[str]:
    """Heading, purpose and columns of one table."""
    yield f"### {table.name}"
    yield ""
    yield table.doc
    yield ""
    yield from grid(
        ("column", "type", "unit", "null", "meaning"),
        [(f"`{c.name}`", c.type, c.unit or "", "" if c.required else "yes", c.doc) for c in table.columns],
    )


def page() -> str:
    """The whole page."""
    lines = [
        "# Records, tables and vocabularies",
        "",
        "Generated from `trnscope.schema` by `make docs`; a test fails when this page is stale.",
        "",
        f"Schema version {SCHEMA_VERSION}. Tables that the published Neuron Explorer schema has carry its names and "
        f"columns (version {PROFILE_SCHEMA_VERSION}). Times are integer nanoseconds, sizes are bytes, shares run from "
        "0 to 1. Device times are modelled.",
        "",
        "## Capture directory",
        "",
        "```",
        "<out>/<instance>_pid_<pid>/<timestamp>/",
        "  capture.json       written last, atomically; without it the capture is incomplete",
        "  trace.json         chrome trace in virtual time, when one was exported",
        "  tables/*.parquet   one file per table, immutable",
        "  neff_<program>_vnc_<k>.neff, profile_nc_<k>_session_<n>.ntff   trnscope's own containers",
        "```",
        "",
        "### capture.json",
        "",
    ]
    for shape in (CaptureManifest, WindowInfo, FileEntry):
        lines += [f"`{shape.__name__}`: {(shape.__doc__ or '').strip()}", ""]
        hints = get_type_hints(shape)
        names = [f.name for f in dataclasses.fields(shape)] if dataclasses.is_dataclass(shape) else list(hints)
        lines += grid(("field", "type"), [(f"`{name}`", type_name(hints[name])) for name in names])
    lines += ["## Tables of trnscope's own", ""]
    for table in TABLES.values():
        lines += table_section(table) if not table.explorer else []
    lines += ["## Tables with names of the published schema", ""]
    for table in TABLES.values():
        lines += table_section(table) if table.explorer else []
    lines += [
        "## Event model of imported traces",
        "",
        f"Version {EVENT_MODEL_VERSION}. `trnscope import` turns a trace of any format into an import directory:",
        "",
        "```",
        "<import>/",
        "  store.json                       written last, atomically: versions, sources, repairs",
        "  tables/Source.parquet, DataQuality.parquet",
        "  sources/<n>/*.parquet            tables of one file, immutable",
        "  sources/<n>/source.json          makes an import resumable",
        "```",
        "",
        "Tables that a file brings with it keep their own names and columns beside these.",
        "",
    ]
    for table in EVENT_TABLES:
        lines += table_section(table)
    lines += [
        "## Record log",
        "",
        f"What the device extension writes, {LOG_DTYPE.itemsize} bytes per record.",
        "",
    ]
    fields = LOG_DTYPE.fields or {}
    lines += grid(
        ("field", "type", "offset"),
        [(f"`{name}`", fields[name][0].str, str(fields[name][1])) for name in LOG_DTYPE.names or ()],
    )
    for enum in (record_module.Kind, record_module.Phase, record_module.Origin, record_module.Flag):
        lines.append(f"`{enum.__name__}`: " + ", ".join(f"{member.name} = {member.value}" for member in enum) + ".")
        lines.append("")
    lines += ["## Vocabularies", "", "Closed: another value in a table or an answer is a bug.", ""]
    closed = {name.lower(): value for name, value in vars(vocabulary).items() if name.isupper()}
    lines += grid(
        ("vocabulary", "values"),
        [(f"`{name}`", ", ".join(f"`{value}`" for value in values)) for name, values in closed.items()],
    )
    lines += ["## JSON answers", "", "Every `--json` answer carries these fields beside its own:", ""]
    lines += grid(
        ("field", "type"),
        [(f"`{name}`", type_name(kind)) for name, kind in get_type_hints(Answer).items()],
    )
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}", file=sys.stderr)
