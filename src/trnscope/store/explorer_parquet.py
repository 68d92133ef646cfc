"""Reading a directory of Neuron Explorer Parquet tables, of any schema version.

Tables and columns are what the files say: each table is kept whole, whether this package knows it or not. The
capture's own `SchemaFields` and `Metadata.profile_schema_version` tell what it was written with. Large tables come in
numbered parts.
"""

import re
from pathlib import Path
from typing import Any, Final

import duckdb

from trnscope.errors import TrnscopeError
from trnscope.schema.events import EVENT_TABLES, SLICE
from trnscope.schema.version import PROFILE_SCHEMA_VERSION
from trnscope.store.device_tracks import write_device_slices
from trnscope.store.engine import TABLE_MEMORY, connect, identifier, path_literal
from trnscope.store.nesting import NestingPass
from trnscope.store.neuron_summary import check_summary
from trnscope.store.source import SourceContext, SourceFacts

_PART: Final = re.compile(r"(?P<table>[A-Za-z][A-Za-z0-9]*?)(?:_(?P<part>\d+))?\.parquet")
OWN_NAMES: Final = frozenset(table.name for table in EVENT_TABLES)


def import_explorer_directory(context: SourceContext) -> SourceFacts:
    """Copy every table and make tracks of the timelines among them."""
    facts = SourceFacts("explorer-parquet")
    parts: dict[str, list[Path]] = {}
    for path in sorted(context.path.glob("*.parquet")):
        match = _PART.fullmatch(path.name)
        table = match.group("table") if match else re.sub(r"\W", "_", path.stem)
        parts.setdefault(table, []).append(path)
    rows: dict[str, int] = {}
    with connect(TABLE_MEMORY, spill=context.tables.directory / "spill") as connection:
        for table, paths in parts.items():
            name = free_name(table)
            rows[name] = _copy(connection, paths, context.tables.directory / f"{name}.parquet")
            context.progress(sum(path.stat().st_size for path in paths))
        for name, count in rows.items():
            context.tables.add_external(name, count)
        facts.events = sum(rows.values())
        _describe(connection, context, facts, rows)
        write_device_slices(connection, context, facts, rows)
        if rows.get("Summary"):
            facts.extra["summary"] = check_summary(connection, context.tables.directory, context.quality)
    context.tables.close(SLICE)
    NestingPass(context.source_id, context.tables, context.tracks, context.quality).run()
    return facts


def free_name(table: str) -> str:
    """The table's name, with `Foreign` before it when the event model has a table of that name."""
    return f"Foreign{table}" if table in OWN_NAMES else table


def _copy(connection: Any, paths: list[Path], out: Path) -> int:
    listed = ", ".join(path_literal(path) for path in paths)
    try:
        (rows,) = connection.execute(
            f"COPY (SELECT * FROM read_parquet([{listed}], union_by_name = true)) TO {path_literal(out)} "
            "(FORMAT parquet, COMPRESSION zstd)"
        ).fetchone()
    except duckdb.Error as error:
        raise TrnscopeError(
            f"{paths[0]}: unreadable Parquet: {str(error).splitlines()[0]}", "copy the profile again"
        ) from None
    return int(rows)


def _describe(connection: Any, context: SourceContext, facts: SourceFacts, rows: dict[str, int]) -> None:
    wanted = ("profile_schema_version", "ntff_version", "instance_type", "explorer_version", "compiler_version",
              "runtime_version", "num_physical_cores", "is_simulation", "neuroncore_idx")  # fmt: skip
    if rows.get("Metadata"):
        path = path_literal(context.tables.directory / "Metadata.parquet")
        present = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM read_parquet({path})").fetchall()}
        shown = [column for column in wanted if column in present]
        if shown:
            listed = ", ".join(identifier(column) for column in shown)
            record = connection.execute(f"SELECT {listed} FROM read_parquet({path}) LIMIT 1").fetchone()
            facts.extra = {k: v for k, v in zip(shown, record, strict=True) if v is not None}
    version = str(facts.extra.get("profile_schema_version") or "")
    if version.split(".")[0] != PROFILE_SCHEMA_VERSION.split(".")[0]:
        context.quality.add("unknown-schema", f"{version or 'no version given'}; known is {PROFILE_SCHEMA_VERSION}")
    facts.device_name = facts.extra.get("instance_type")
    explorer = facts.extra.get("explorer_version")
    facts.framework = f"neuron-explorer {explorer}" if explorer else "neuron-explorer"
    if rows.get("SchemaFields"):
        path = path_literal(context.tables.directory / "SchemaFields.parquet")
        described = {
            row[0] for row in connection.execute(f"SELECT DISTINCT table_name FROM read_parquet({path})").fetchall()
        }
        facts.extra["undescribed_tables"] = sorted(set(rows) - described - {"SchemaFields"})
