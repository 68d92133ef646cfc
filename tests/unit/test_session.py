"""A profiling session from window to capture, with the runtime's part played by the test."""

import errno
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from window_builder import COSTS, MAIN, START, placed, record

pytest.importorskip("torch")

from trnscope.profiling import session as sessions
from trnscope.profiling.config import NeuronConfig
from trnscope.profiling.profiler import NeuronProfiler
from trnscope.profiling.session import Session, window_name
from trnscope.profiling.settings import ProfileMode
from trnscope.runtime.windows import Window, WindowStart
from trnscope.schema.records import Kind
from trnscope.store import writer
from trnscope.store.capture import find_captures, open_capture


class FakeExtension:
    def set_current_module(self, module: int) -> int:
        return 0

    def set_optimizer_phase(self, on: bool) -> bool:
        return False

    def record_mark(self, number: int) -> None: ...


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    programs = SimpleNamespace(keys=frozenset, target=SimpleNamespace(calibration="calibration-1"))
    timeline = SimpleNamespace(durations=SimpleNamespace(programs=programs), costs=COSTS)
    runtime = SimpleNamespace(
        chip="trn2", instance="trn2.3xlarge", lnc=2, host_mode="measured", timeline=timeline
    )  # fmt: skip
    monkeypatch.setattr(sessions, "_runtime", lambda: (runtime, FakeExtension()))
    session = Session()
    monkeypatch.setattr("trnscope.profiling.profiler.session", session)
    yield session
    session.start(WindowStart(0, "", {}, True, START, MAIN))  # takes hooks of an unfinished window away


def profile(session: Session, config: NeuronConfig, *, ops: int = 3, number: int = 1, **flags: bool) -> Window:
    """One window of `ops` ops on cores 0 and 1 in turn."""
    text = config.custom_profiler_config
    session.start(WindowStart(number, text, flags, True, START + number, MAIN))
    view = placed([record(Kind.OP, 100 * i, 100 * i + 50, 1 + i % 2, device=i % 2) for i in range(ops)], flags=flags)
    window = view.window
    window = Window(**{f: getattr(window, f) for f in Window.__slots__} | {"config_string": text, "number": number})
    session.finish(window, view.placed)
    return window


def tables(directory: Path) -> set[str]:
    return {path.stem for path in (directory / "tables").iterdir()}


ALWAYS = {"OpRecord", "Program", "Execution", "HostInterval", "ClockSync", "Step", "DataQuality"}
DEVICE = {"ProgramInstruction", "ProgramDmaPacketAggregated", "ProgramActiveTime"}


@pytest.mark.parametrize(
    ("modes", "more"),
    [
        ([ProfileMode.RUNTIME], {"SystemProfileEvents"}),
        ([ProfileMode.DEVICE], DEVICE),
        ([ProfileMode.CPU_UTIL], {"CpuUsage"}),
        ([ProfileMode.HOST_MEMORY], {"HostMemUsage"}),
        (list(ProfileMode), DEVICE | {"SystemProfileEvents", "CpuUsage", "HostMemUsage"}),
    ],
)
def test_modes_decide_what_is_captured(
    session: Session, tmp_path: Path, modes: list[ProfileMode], more: set[str]
) -> None:
    profile(session, NeuronConfig(modes=modes, profile_output_dir=tmp_path))
    (capture,) = find_captures(tmp_path)
    assert tables(capture.directory) == ALWAYS | more
    capture.verify_checksums()
    has_containers = ProfileMode.DEVICE in modes
    assert bool(list(capture.directory.glob("*.neff"))) is has_containers
    assert bool(list(capture.directory.glob("*.ntff"))) is has_containers


def test_the_manifest_says_what_it_is(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--fast"])
    monkeypatch.setenv("RANK", "3")
    config = NeuronConfig(profile_output_dir=tmp_path, correlate_device_time=True)
    profile(session, config, record_shapes=True)
    (capture,) = find_captures(tmp_path)
    manifest = capture.manifest
    assert capture.directory.parent.name == f"trn2.3xlarge_pid_{os.getpid()}"
    assert (manifest.chip, manifest.instance, manifest.lnc, manifest.is_simulation) == ("trn2", "trn2.3xlarge", 2, True)
    assert (manifest.calibration_id, manifest.process_id, manifest.rank) == ("calibration-1", os.getpid(), 3)
    assert manifest.command == ["train.py", "--fast"]
    assert manifest.profile == {"neuron_config": config.settings.as_json(), "torch": {"record_shapes": True}}
    assert manifest.window["start_ns"] <= manifest.window["end_ns"]
    assert (manifest.window["host_mode"], manifest.window["steps"]) == ("measured", 1)
    assert (manifest.counts["OpRecord"], manifest.counts["Execution"], manifest.counts["dropped_executions"]) == (
        3,
        3,
        0,
    )
    assert manifest.caveats[0] == "Device times are modelled, not measured."


def test_each_window_has_its_directory(session: Session, tmp_path: Path) -> None:
    config = NeuronConfig(profile_output_dir=tmp_path)
    profiler = NeuronProfiler(config)
    assert profiler.session_dir is None
    seen = []
    for number in (1, 2, 3):
        profile(session, config, number=number)
        seen.append(profiler.session_dir)
    assert [capture.directory for capture in find_captures(tmp_path)] == seen
    assert [path.name for path in seen] == [window_name(START + number) for number in (1, 2, 3)]


def test_window_names_have_nanoseconds() -> None:
    assert window_name(1_900_000_000_000_000_001) == "20300317_174640_000000001"


def test_relative_output_is_where_the_window_began(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    config = NeuronConfig(profile_output_dir="out")
    session.start(WindowStart(1, config.custom_profiler_config, {}, True, START, MAIN))
    monkeypatch.chdir(tmp_path / "elsewhere")
    view = placed([record(Kind.OP, 0, 50, 1)])
    session.finish(view.window, view.placed)
    assert len(find_captures(tmp_path / "out")) == 1


def test_dropped_executions_are_said_and_counted(session: Session, tmp_path: Path) -> None:
    config = NeuronConfig(profile_output_dir=tmp_path, max_events_per_nc=2)
    with pytest.warns(RuntimeWarning, match=r"5 trace events were dropped during capture \(5 out of 9\)"):
        profile(session, config, ops=9)
    (capture,) = find_captures(tmp_path)
    assert capture.manifest.counts["dropped_executions"] == 5
    assert pq.read_table(capture.directory / "tables/Execution.parquet")["exec_id"].to_pylist() == [5, 6, 7, 8]
    quality = pq.read_table(capture.directory / "tables/DataQuality.parquet").to_pylist()
    assert [(row["kind"], row["count"]) for row in quality] == [("dropped-executions", 5)]


def test_filtered_cores_are_said(session: Session, tmp_path: Path) -> None:
    profile(session, NeuronConfig(profile_output_dir=tmp_path, capture_enabled_for_nc=[1]), ops=9)
    (capture,) = find_captures(tmp_path)
    assert pq.read_table(capture.directory / "tables/Execution.parquet")["device"].to_pylist() == [1, 1, 1, 1]
    quality = pq.read_table(capture.directory / "tables/DataQuality.parquet").to_pylist()
    assert [(row["kind"], row["count"]) for row in quality] == [("filtered-executions", 5)]
    assert [path.name for path in capture.directory.glob("*.ntff")] == ["profile_nc_1_session_1.ntff"]


def test_programs_are_kept_in_the_cache_directory(session: Session, tmp_path: Path) -> None:
    config = NeuronConfig(profile_output_dir=tmp_path / "out", neff_cache_dir=tmp_path / "cache")
    profile(session, config)
    profile(session, config, number=2)
    (first, _) = find_captures(tmp_path / "out")
    inside = {path.read_bytes() for path in first.directory.glob("*.neff")}
    assert {path.read_bytes() for path in (tmp_path / "cache").iterdir()} == inside
    assert len(inside) == 2


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_is_one_warning(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer.pq, "write_table", full_disk)
    config = NeuronConfig(profile_output_dir=tmp_path)
    with pytest.warns(RuntimeWarning) as caught:
        profile(session, config)
    assert [str(w.message) for w in caught] == [
        f"trnscope: the capture in {tmp_path} could not be written: No space left on device. The script goes on."
    ]
    assert NeuronProfiler(config).session_dir is None
    assert list(tmp_path.glob("*/*")) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NeuronProfiler(config).export_trace(None)  # has been said already


def test_unwritable_output_is_one_warning(session: Session, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="could not be written: Not a directory. The script goes on") as caught:
        profile(session, NeuronConfig(profile_output_dir=tmp_path / "file"))
    assert len(caught) == 1


class FakeProfile:
    """Exports a trace as torch does."""

    def export_chrome_trace(self, path: str) -> None:
        events = [{"ph": "X", "cat": "kernel", "ts": 1.5, "dur": 2, "pid": 0, "tid": 0}]
        trace = {"schemaVersion": 1, "baseTimeNanoseconds": START, "traceEvents": events}
        Path(path).write_text(json.dumps(trace, indent=4))


def test_export_adds_the_trace_to_the_capture(session: Session, tmp_path: Path) -> None:
    config = NeuronConfig(profile_output_dir=tmp_path)
    profile(session, config)
    NeuronProfiler(config).export_trace(FakeProfile())
    (capture,) = find_captures(tmp_path)
    trace = json.loads((capture.directory / "trace.json").read_text())
    assert trace["trnscope"] == {"clock": "virtual", "host_mode": "measured", "is_simulation": True}
    assert trace["traceEvents"][0]["ts"] == 1.5
    assert "trace.json" in [entry["path"] for entry in capture.manifest.files]
    capture.verify_checksums()
    assert [path for path in capture.directory.iterdir() if path.name.startswith(".")] == []


def test_export_on_a_full_disk_leaves_the_capture_whole(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = NeuronConfig(profile_output_dir=tmp_path)
    profile(session, config)
    monkeypatch.setattr(writer.os, "fsync", full_disk)
    with pytest.warns(RuntimeWarning, match=r"trace.json could not be written: No space left on device"):
        NeuronProfiler(config).export_trace(FakeProfile())
    (capture,) = find_captures(tmp_path)
    open_capture(capture.directory).verify_checksums()
    assert not (capture.directory / "trace.json").exists()


def test_export_without_a_window_of_this_config_warns(session: Session, tmp_path: Path) -> None:
    profile(session, NeuronConfig(profile_output_dir=tmp_path))
    with pytest.warns(RuntimeWarning, match="the profile does not use this NeuronConfig"):
        NeuronProfiler(NeuronConfig(profile_output_dir=tmp_path, max_events_per_nc=7)).export_trace(FakeProfile())


def test_a_plain_profile_leaves_nothing(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session.start(WindowStart(1, "", {}, True, START, MAIN))
    view = placed([record(Kind.OP, 0, 50, 1)])
    session.finish(view.window, view.placed)
    assert list(tmp_path.iterdir()) == []


def test_parts_of_a_raw_configuration_that_are_ignored_are_said(session: Session, tmp_path: Path) -> None:
    session.start(WindowStart(1, f"profile_output_dir:{tmp_path};colour:red", {}, True, START, MAIN))
    view = placed([record(Kind.OP, 0, 50, 1)])
    with pytest.warns(RuntimeWarning, match="ignored in the profiler's configuration: unknown parameter 'colour'"):
        session.finish(view.window, view.placed)
    (capture,) = find_captures(tmp_path)
    assert "Ignored in the profiler's configuration: unknown parameter 'colour'." in capture.manifest.caveats


TWO = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from window_builder import COSTS, placed, record, Kind
from trnscope.profiling.capture import Environment, Observed, write_capture
from trnscope.profiling.settings import Settings
view = placed([record(Kind.OP, 0, 50, 1)])
environment = Environment("trn2", "trn2.3xlarge", 2, "measured", "values", "1", "c", "t", 7, 0, [sys.argv[3]], COSTS)
for _ in range(5):
    write_capture(view, Settings(), environment, Observed(), Path(sys.argv[2]), "same_name")
"""


def test_two_processes_with_the_same_names_never_mix(tmp_path: Path) -> None:
    here = str(Path(__file__).parents[1])
    running = [subprocess.Popen([sys.executable, "-c", TWO, here, str(tmp_path), name]) for name in "ab"]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    captures = find_captures(tmp_path)
    for capture in captures:
        capture.verify_checksums()
    assert sorted(capture.manifest.command[0] for capture in captures) == ["a"] * 5 + ["b"] * 5
    assert [p for p in (tmp_path / "trn2.3xlarge_pid_7").iterdir() if p.name.startswith(".")] == []
