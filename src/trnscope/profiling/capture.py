"""Writes a finished window as a capture directory."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trnscope._version import __version__
from trnscope.core.clock import ClockCosts
from trnscope.profiling import device_files, framework_tables, host_tables, memory_tables, runtime_tables
from trnscope.profiling.placement import PlacedWindow
from trnscope.profiling.samplers import Samples
from trnscope.profiling.settings import ProfileMode, Settings
from trnscope.schema import PROFILE_SCHEMA_VERSION, SCHEMA_VERSION, CaptureLayout, CaptureManifest
from trnscope.store.writer import CaptureWriter, replace_file

if TYPE_CHECKING:
    from trnscope.profiling.hooks import ModuleTable


@dataclass(frozen=True, slots=True)
class Environment:
    """What a capture says about where it was made."""

    chip: str
    instance: str
    lnc: int
    host_mode: str
    compute_mode: str
    model_version: str
    calibration_id: str
    torch_version: str
    process_id: int
    rank: int
    command: list[str]
    costs: ClockCosts


@dataclass(slots=True)
class Observed:
    """What was seen beside the log."""

    modules: "ModuleTable | None" = None
    samples: Samples = field(default_factory=Samples)
    loaded_before: frozenset[str] = frozenset()
    graphs: dict[str, Any] | None = None
    """Columns of `Graph`."""
    complaints: Sequence[str] = ()
    """Parts of the configuration that were ignored."""


def write_capture(
    view: PlacedWindow, settings: Settings, environment: Environment, observed: Observed, output: Path, name: str
) -> Path:
    """Write one window; returns its directory.

    Args:
        output: the output directory of the session, absolute.
        name: wanted name of the window's directory.

    Raises:
        OSError: it cannot be written.
    """
    parent = output / CaptureLayout.process_directory(environment.instance, environment.process_id)
    with CaptureWriter(parent, name) as writer:
        _write_framework(writer, view, observed)
        if ProfileMode.RUNTIME in settings.modes:
            writer.add_table(
                "SystemProfileEvents",
                runtime_tables.system_profile_events(
                    view,
                    observed.loaded_before,
                    instance=environment.instance,
                    process_id=environment.process_id,
                    rank=environment.rank,
                    physical_cores=environment.lnc,
                    launch_latency_ns=environment.costs.launch_latency_ns,
                ),
            )
        if view.window.memory_events.dtype.names:
            writer.add_table("Tensor", memory_tables.tensors(view))
            writer.add_table("SystemProfileHbmUsage", memory_tables.hbm_usage(view))
        _write_samples(writer, settings, observed.samples)
        long_programs = 0
        if ProfileMode.DEVICE in settings.modes:
            long_programs = _write_device(writer, view, settings)
        quality = _data_quality(view, observed, long_programs)
        writer.add_table(
            "DataQuality", {column: [row[column] for row in quality] for column in ("kind", "count", "detail")}
        )
        return writer.commit(
            _manifest(view, settings, environment, writer.rows, [str(row["detail"]) for row in quality])
        )


def _write_framework(writer: CaptureWriter, view: PlacedWindow, observed: Observed) -> None:
    writer.add_table("OpRecord", framework_tables.op_records(view))
    writer.add_table("Program", framework_tables.programs(view.placed.programs))
    writer.add_table("Execution", framework_tables.executions(view, observed.loaded_before))
    writer.add_table("HostInterval", host_tables.host_intervals(view))
    writer.add_table("ClockSync", host_tables.clock_sync(view))
    writer.add_table("Step", host_tables.steps(view))
    if observed.modules is not None:
        modules = observed.modules
        writer.add_table("Module", framework_tables.modules(modules.paths, modules.types, modules.parents))
    if view.window.torch_flags.get("with_stack"):
        writer.add_table("Stack", framework_tables.stacks(view.window.stacks))
    if observed.graphs is not None:
        writer.add_table("Graph", observed.graphs)


def _write_samples(writer: CaptureWriter, settings: Settings, samples: Samples) -> None:
    if ProfileMode.CPU_UTIL in settings.modes:
        columns = {"timestamp": samples.cpu_ns, "percent": samples.cpu_percent, "threads": samples.threads}
        writer.add_table("CpuUsage", columns)
    if ProfileMode.HOST_MEMORY in settings.modes:
        writer.add_table("HostMemUsage", {"timestamp": samples.memory_ns, "rss_bytes": samples.rss_bytes})


def _write_device(writer: CaptureWriter, view: PlacedWindow, settings: Settings) -> int:
    """Program tables and containers; returns how many rows of long programs are not listed."""
    programs, used = view.placed.programs, device_files.used_programs(view)
    for name, table in device_files.device_tables(programs, used).items():
        writer.add_table(name, table)
    for name, parts in device_files.containers(view):
        writer.add_file(name, parts)
    if settings.neff_cache_dir is not None:
        cache = Path(settings.neff_cache_dir)
        cache.mkdir(parents=True, exist_ok=True)
        for index in used:
            path = cache / f"neff_{programs[index].key}.neff"
            if not path.exists():
                replace_file(path, b"".join(device_files.neff_content(programs[index])))
    return device_files.truncated(programs, used)


def dropped_warning(dropped: int, total: int) -> str:
    """The ring buffer's warning, in the words of the published tool."""
    return f"{dropped} trace events were dropped during capture ({dropped} out of {total})"


def _data_quality(view: PlacedWindow, observed: Observed, long_programs: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def add(kind: str, count: int, detail: str) -> None:
        if count:
            rows.append({"kind": kind, "count": count, "detail": detail})

    kept = int(view.kept.sum())
    filtered = int((view.placed.exec_id >= 0).sum()) - kept - view.dropped
    unknown = int((view.kept & ~view.is_copy & (view.placed.program < 0)).sum())
    add("dropped-executions", view.dropped, dropped_warning(view.dropped, kept + view.dropped) + ".")
    add("filtered-executions", filtered, f"{filtered} executions ran on cores that capture_enabled_for_nc leaves out.")
    add("unknown-program", unknown, f"{unknown} executions have no known program; their device time is taken as 0.")
    doubtful = int(view.placed.uncertain.sum())
    add("uncertain-clock", doubtful, f"The virtual clock could not order threads at {doubtful} records.")
    add("unlisted-instructions", long_programs, f"{long_programs} rows of long programs are counted but not listed.")
    for complaint in observed.complaints:
        add("ignored-configuration", 1, f"Ignored in the profiler's configuration: {complaint}.")
    return rows


def _manifest(
    view: PlacedWindow, settings: Settings, environment: Environment, rows: dict[str, int], details: list[str]
) -> CaptureManifest:
    caveats = ["Device times are modelled, not measured.", *details]
    if ProfileMode.CPU_UTIL in settings.modes or ProfileMode.HOST_MEMORY in settings.modes:
        caveats.append("CPU and memory samples describe the emulating host.")
    return CaptureManifest(
        schema_version=SCHEMA_VERSION,
        profile_schema_version=PROFILE_SCHEMA_VERSION,
        tool_version=__version__,
        chip=environment.chip,
        instance=environment.instance,
        lnc=environment.lnc,
        model_version=environment.model_version,
        calibration_id=environment.calibration_id,
        is_simulation=True,
        torch_version=environment.torch_version,
        process_id=environment.process_id,
        rank=environment.rank,
        command=environment.command,
        window={
            "start_ns": view.start_ns,
            "end_ns": view.end_ns,
            "host_mode": environment.host_mode,
            "compute_mode": environment.compute_mode,
            "steps": rows["Step"],
        },
        profile={"neuron_config": settings.as_json(), "torch": dict(view.window.torch_flags)},
        counts=rows | {"dropped_executions": view.dropped},
        caveats=caveats,
    )
