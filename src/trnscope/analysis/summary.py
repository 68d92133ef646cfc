"""What happened in a capture: one answer made of the questions in `sql/`."""

from typing import Any, NotRequired, TypedDict, cast

from trnscope.analysis.question import ask
from trnscope.store.capture import Capture
from trnscope.store.views import connect


class Identity(TypedDict):
    """Which capture this is."""

    directory: str
    command: list[str]
    chip: str
    instance: str
    lnc: int
    host_mode: str
    compute_mode: str
    torch_version: str
    tool_version: str
    model_version: str
    calibration_id: str
    is_simulation: bool
    start_ns: int
    length_ns: int
    """Virtual host clock."""


class Totals(TypedDict):
    """The window in six numbers. Device times are modelled when the capture is a simulation."""

    executions: int
    programs: int
    device_time_ns: int
    """Sum over all executions."""
    device_busy_ns: int
    """Union of the executions of each device, summed over the devices."""
    span_ns: int
    """From the start of the window to its end or to the end of its last execution, whichever is later."""
    device_busy_share: float
    """Busy time over span, mean of the devices in use."""


class OpTime(TypedDict):
    """Row of `sql/op_time.sql`."""

    op: str
    category: str
    executions: int
    programs: int
    device_time_ns: int
    mean_ns: int
    share: float
    low_ns: int
    high_ns: int
    flops: int
    hbm_bytes: int
    bound: str
    confidence: str


class OpCalls(TypedDict):
    """Row of `sql/op_calls.sql`."""

    op: str
    calls: int
    executions: int
    views: int
    first_uses: int


class DeviceTime(TypedDict):
    """Row of `sql/devices.sql`."""

    device: int
    executions: int
    device_time_ns: int
    busy_ns: int
    first_start_ns: int
    last_end_ns: int


class HostTime(TypedDict):
    """Row of `sql/host_time.sql`."""

    thread: int
    category: str
    intervals: int
    host_ns: int
    uncertain_ns: int


class Gap(TypedDict):
    """One gap in a row of `sql/gaps.sql`."""

    before_exec_id: int
    after_exec_id: int
    after_op: str
    start_ns: int
    gap_ns: int
    host_ns: int
    launch_ns: int


class StreamGaps(TypedDict):
    """Row of `sql/gaps.sql`."""

    device: int
    stream: int
    gaps: int
    gap_ns: int
    host_ns: int
    launch_ns: int
    longest: list[Gap]


class Launches(TypedDict):
    """Row of `sql/launches.sql`."""

    origin: str
    launches: int
    dispatch_ns: int | None
    delay_min_ns: int
    delay_median_ns: int
    delay_p95_ns: int
    delay_max_ns: int
    queued: int


class FirstUse(TypedDict):
    """Row of `sql/first_uses.sql`."""

    exec_id: int
    device: int
    op: str
    program: str | None
    start_ns: int
    load_ns: int


class Region(TypedDict):
    """Row of `sql/regions.sql`."""

    kind: str
    name: str
    times: int
    executions: int
    device_time_ns: int
    host_time_ns: int


class DataQuality(TypedDict):
    """Row of the table DataQuality."""

    kind: str
    count: int
    detail: str


class Summary(TypedDict):
    """Everything that `trnscope summary` shows of one capture."""

    capture: Identity
    totals: Totals
    ops: list[OpTime]
    calls: list[OpCalls]
    devices: list[DeviceTime]
    host: list[HostTime]
    gaps: list[StreamGaps]
    launches: list[Launches]
    first_uses: list[FirstUse]
    regions: list[Region]
    data_quality: list[DataQuality]
    caveats: list[str]


class Difference(TypedDict):
    """One capture or region beside the first of its list."""

    name: str
    times: int
    executions: int
    device_time_ns: int
    host_time_ns: int
    main_op: NotRequired[str]
    """The op with most of the device time of a capture."""
    device_ratio: NotRequired[float]
    """Device time per occurrence over that of the first; absent where the first has none."""


def summarize(capture: Capture) -> Summary:
    """Ask every question of one capture."""
    with connect(capture) as connection:
        rows: dict[str, Any] = {
            name: ask(connection, name)
            for name in (
                "op_time",
                "op_calls",
                "devices",
                "host_time",
                "gaps",
                "launches",
                "first_uses",
                "regions",
                "data_quality",
            )
        }
        programs = connection.execute("SELECT count(DISTINCT program_id) FROM Execution").fetchone()
    manifest = capture.manifest
    devices = cast("list[DeviceTime]", rows["devices"])
    return {
        "capture": {
            "directory": str(capture.directory),
            "command": manifest.command,
            "chip": manifest.chip,
            "instance": manifest.instance,
            "lnc": manifest.lnc,
            "host_mode": manifest.window["host_mode"],
            "compute_mode": manifest.window["compute_mode"],
            "torch_version": manifest.torch_version,
            "tool_version": manifest.tool_version,
            "model_version": manifest.model_version,
            "calibration_id": manifest.calibration_id,
            "is_simulation": manifest.is_simulation,
            "start_ns": manifest.window["start_ns"],
            "length_ns": capture.length_ns,
        },
        "totals": _totals(capture, devices, programs[0] if programs else 0),
        "ops": rows["op_time"],
        "calls": rows["op_calls"],
        "devices": devices,
        "host": rows["host_time"],
        "gaps": rows["gaps"],
        "launches": rows["launches"],
        "first_uses": rows["first_uses"],
        "regions": rows["regions"],
        "data_quality": rows["data_quality"],
        "caveats": manifest.caveats,
    }


def compare_regions(regions: list[Region]) -> list[Difference]:
    """Regions beside the first of them, per occurrence."""
    return _differences(
        [
            {
                "name": region["name"],
                "times": region["times"],
                "executions": region["executions"],
                "device_time_ns": region["device_time_ns"],
                "host_time_ns": region["host_time_ns"],
            }
            for region in regions
        ]
    )


def compare_captures(summaries: list[Summary]) -> list[Difference]:
    """Captures beside the first of them, named by the last part of their directory."""
    rows: list[Difference] = []
    for summary in summaries:
        row: Difference = {
            "name": summary["capture"]["directory"].rsplit("/", 1)[-1],
            "times": 1,
            "executions": summary["totals"]["executions"],
            "device_time_ns": summary["totals"]["device_time_ns"],
            "host_time_ns": summary["capture"]["length_ns"],
        }
        if summary["ops"]:
            row["main_op"] = summary["ops"][0]["op"]
        rows.append(row)
    return _differences(rows)


def _totals(capture: Capture, devices: list[DeviceTime], programs: int) -> Totals:
    window = capture.manifest.window
    end_ns = max([window["end_ns"], *(device["last_end_ns"] for device in devices)])
    span_ns = end_ns - window["start_ns"]
    busy_ns = sum(device["busy_ns"] for device in devices)
    return {
        "executions": sum(device["executions"] for device in devices),
        "programs": programs,
        "device_time_ns": sum(device["device_time_ns"] for device in devices),
        "device_busy_ns": busy_ns,
        "span_ns": span_ns,
        "device_busy_share": busy_ns / (span_ns * len(devices)) if devices and span_ns > 0 else 0.0,
    }


def _differences(rows: list[Difference]) -> list[Difference]:
    """The rows with `device_ratio`, where the first one has device time to compare with."""
    first_ns = rows[0]["device_time_ns"] / rows[0]["times"] if rows else 0
    if first_ns:
        for row in rows:
            row["device_ratio"] = row["device_time_ns"] / row["times"] / first_ns
    return rows
