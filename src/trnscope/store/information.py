"""Facts about an opened trace, for `trnscope info` and for whoever wants them in Python."""

import json
from typing import Any, Final, TypedDict

from trnscope.schema.events import DEVICE_KINDS
from trnscope.store.engine import literal
from trnscope.store.trace import Trace

_DEVICE: Final = ", ".join(literal(kind) for kind in DEVICE_KINDS)


class SourceInfo(TypedDict):
    """One imported file."""

    path: str
    format: str
    container: str
    file_bytes: int
    events: int
    rank: int | None
    rank_origin: str
    world_size: int | None
    device_name: str | None
    framework: str | None
    base_time_ns: int | None
    start_ns: int | None
    end_ns: int | None
    device_executions: int
    device_time_ns: int
    """Sum over device slices, overlaps counted twice."""
    with_launch: int
    with_op: int
    extra: dict[str, Any]


class IssueInfo(TypedDict):
    """One kind of repair or gap in one file."""

    path: str
    kind: str
    count: int
    severity: str
    detail: str
    affects: str | None
    examples: list[str]


class Information(TypedDict):
    """Everything `describe` tells."""

    directory: str
    sources: list[SourceInfo]
    events: int
    device_executions: int
    device_time_ns: int
    linked_share: float | None
    """Device executions linked to an op; null without device executions."""
    ranks: list[int]
    devices: list[str]
    window_ns: int | None
    """Longest window of a file."""
    rows: dict[str, int]
    repairs: dict[str, int]
    issues: list[IssueInfo]
    skipped: dict[str, str]


def describe(trace: Trace) -> Information:
    """Facts of all sources. Only device time needs a query; the rest was written down while importing."""
    query = f"SELECT source_id, count(*), sum(duration_ns)::BIGINT FROM Slice WHERE kind IN ({_DEVICE}) GROUP BY 1"
    device = {source: (count, total) for source, count, total in trace.sql(query).fetchall()}
    sources = [_source(entry, *device.get(entry["source"]["source_id"], (0, 0))) for entry in trace.sources]
    issues = [_issue(entry["source"]["path"], row) for entry in trace.sources for row in entry["quality"]]
    executions = sum(source["device_executions"] for source in sources)
    repairs: dict[str, int] = {}
    for issue in issues:
        repairs[issue["kind"]] = repairs.get(issue["kind"], 0) + issue["count"]
    windows = [s["end_ns"] - s["start_ns"] for s in sources if s["start_ns"] is not None and s["end_ns"] is not None]
    return {
        "directory": str(trace.directory),
        "sources": sources,
        "events": sum(source["events"] for source in sources),
        "device_executions": executions,
        "device_time_ns": sum(source["device_time_ns"] for source in sources),
        "linked_share": sum(source["with_op"] for source in sources) / executions if executions else None,
        "ranks": sorted({source["rank"] for source in sources if source["rank"] is not None}),
        "devices": sorted({source["device_name"] for source in sources if source["device_name"] is not None}),
        "window_ns": max(windows, default=None),
        "rows": {name: table.rows for name, table in sorted(trace.tables.items()) if table.rows},
        "repairs": dict(sorted(repairs.items())),
        "issues": issues,
        "skipped": trace.manifest["skipped"],
    }


def _source(entry: dict[str, Any], executions: int, time_ns: int) -> SourceInfo:
    row, linking = entry["source"], entry["linking"]
    return {
        "path": row["path"],
        "format": row["format"],
        "container": row["container"],
        "file_bytes": row["file_bytes"],
        "events": row["events"],
        "rank": row["rank"],
        "rank_origin": row["rank_origin"],
        "world_size": row["world_size"],
        "device_name": row["device_name"],
        "framework": row["framework"],
        "base_time_ns": row["base_time_ns"],
        "start_ns": row["start_ns"],
        "end_ns": row["end_ns"],
        "device_executions": executions,
        "device_time_ns": time_ns,
        "with_launch": linking.get("with_launch", 0),
        "with_op": linking.get("with_op", 0),
        "extra": entry["extra"],
    }


def _issue(path: str, row: dict[str, Any]) -> IssueInfo:
    return {
        "path": path,
        "kind": row["kind"],
        "count": row["count"],
        "severity": row["severity"],
        "detail": row["detail"],
        "affects": row["affects"],
        "examples": json.loads(row["examples"]),
    }
