"""Who started what: op -> launch -> device slice, and forward -> backward."""

from typing import Any, Final

from trnscope.schema.events import AUTOGRAD_LINK, DEVICE_KINDS, KERNEL_LINK, NESTING, SLICE
from trnscope.store.engine import LINK_MEMORY, connect, literal, path_literal
from trnscope.store.quality import Quality
from trnscope.store.table_files import TableSet

_DEVICE: Final = ", ".join(literal(kind) for kind in DEVICE_KINDS)

_KERNEL_LINK: Final = """
WITH device AS (
    SELECT slice_id, source_id, correlation, external_id FROM slice WHERE kind IN ({device})
),
launch AS (
    -- ids are given again to synchronisations of the same call: the earliest record is the launch
    SELECT correlation, min(slice_id) AS launch_id, arg_min(external_id, slice_id) AS external_id
    FROM slice WHERE kind = 'runtime' AND correlation > 0 GROUP BY correlation
),
op AS (
    SELECT external_id, min(slice_id) AS op_id
    FROM slice WHERE kind = 'op' AND external_id > 0 GROUP BY external_id
),
joined AS (
    SELECT d.slice_id, d.source_id, d.correlation, launch.launch_id,
           nesting.op_id AS enclosing_id,
           coalesce(own.op_id, theirs.op_id) AS external_op_id
    FROM device d
    LEFT JOIN launch ON d.correlation > 0 AND launch.correlation = d.correlation
    LEFT JOIN nesting ON nesting.slice_id = launch.launch_id
    LEFT JOIN op own ON own.external_id = d.external_id
    LEFT JOIN op theirs ON theirs.external_id = launch.external_id
)
SELECT slice_id, source_id, launch_id,
       coalesce(enclosing_id, external_op_id) AS op_id,
       CASE WHEN enclosing_id IS NOT NULL THEN 'enclosing'
            WHEN external_op_id IS NOT NULL THEN 'external-id' ELSE 'none' END AS method,
       CASE WHEN launch_id IS NULL AND coalesce(correlation, 0) <= 0 THEN 'no-correlation'
            WHEN launch_id IS NULL THEN 'missing-launch'
            WHEN coalesce(enclosing_id, external_op_id) IS NULL THEN 'missing-op' END AS reason
FROM joined
"""

_AUTOGRAD_LINK: Final = """
WITH numbered AS (
    SELECT slice_id, source_id, sequence_number, coalesce(forward_thread, 0) AS forward_thread, duration_ns
    FROM slice WHERE kind = 'op' AND sequence_number >= 0
),
-- several ops of one call chain share a number: the last to start is the one that recorded the node
forward AS (
    SELECT source_id, sequence_number, max(slice_id) AS forward_id
    FROM numbered WHERE forward_thread = 0 GROUP BY ALL
)
SELECT b.slice_id AS backward_id, b.source_id, f.forward_id, b.sequence_number
FROM numbered b JOIN forward f USING (source_id, sequence_number)
WHERE b.forward_thread > 0
"""


def link(tables: TableSet, quality: Quality) -> dict[str, int]:
    """Write KernelLink and AutogradLink; returns the linking report: counts by outcome."""
    report = {"device_slices": 0, "with_launch": 0, "with_op": 0, "autograd": 0}
    slices = tables.directory / f"{SLICE.name}.parquet"
    if not slices.exists():
        quality.add("no-device-events")
        return report
    with connect(LINK_MEMORY, spill=tables.directory / "spill") as connection:
        _views(connection, tables)
        kernel_links = tables[KERNEL_LINK]
        for batch in connection.sql(_KERNEL_LINK.format(device=_DEVICE)).to_arrow_reader(1 << 16):
            kernel_links.write({name: batch.column(name) for name in batch.schema.names})
        for batch in connection.sql(_AUTOGRAD_LINK).to_arrow_reader(1 << 16):
            tables[AUTOGRAD_LINK].write({name: batch.column(name) for name in batch.schema.names})
        tables.close(KERNEL_LINK, AUTOGRAD_LINK)
        report["autograd"] = tables.rows().get(AUTOGRAD_LINK.name, 0)
        _report(connection, tables, report, quality)
    return report


def _views(connection: Any, tables: TableSet) -> None:
    for name in (SLICE.name, NESTING.name):
        path = path_literal(tables.directory / f"{name}.parquet")
        connection.execute(f"CREATE VIEW {name.lower()} AS SELECT * FROM read_parquet({path})")


def _report(connection: Any, tables: TableSet, report: dict[str, int], quality: Quality) -> None:
    path = tables.directory / f"{KERNEL_LINK.name}.parquet"
    if not path.exists():
        quality.add("no-device-events")
        return
    links = path_literal(path)
    total, launched, with_op = connection.execute(
        f"SELECT count(*), count(launch_id), count(op_id) FROM read_parquet({links})"
    ).fetchone()
    report.update(device_slices=total, with_launch=launched, with_op=with_op)
    for reason, count, name, at in connection.execute(
        f"SELECT reason, count(*), min_by(name, slice_id), min(slice.start_ns) FROM read_parquet({links}) "
        "JOIN slice USING (slice_id) WHERE reason IS NOT NULL GROUP BY reason ORDER BY reason"
    ).fetchall():
        quality.add(reason, f"{name} at {at} ns", count)
    duplicates = connection.execute(
        "SELECT count(*) FROM (SELECT correlation FROM slice WHERE kind = 'runtime' AND correlation > 0 "
        "GROUP BY correlation HAVING count(*) > 1)"
    ).fetchone()[0]
    if duplicates:
        quality.add("duplicate-correlation", count=duplicates)
