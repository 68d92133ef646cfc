"""The runtime on hand-made logs: durations, folding, windows, what the profiler shows. Needs no torch."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trnscope.core.clock import ClockCosts
from trnscope.graph.spec import GraphSpec, OpSpec
from trnscope.runtime import windows as windows_module
from trnscope.runtime.emission import EXECUTION_DTYPE, busiest_engine
from trnscope.runtime.programs import Durations, ProgramCache
from trnscope.runtime.signatures import GRAPH_BASE, op_spec, register_graph
from trnscope.runtime.timeline import Timeline
from trnscope.runtime.windows import Placed, Window, Windows, WindowStart, inherit_from_forward, wants_kernels
from trnscope.schema.records import LOG_DTYPE, Kind, Phase

COSTS = ClockCosts(
    eager_dispatch_ns=60_000,
    compiled_launch_ns=95_000,
    launch_latency_ns=1_000,
    copy_overhead_ns=10_000,
    sync_overhead_ns=5_000,
)
LINK = SimpleNamespace(host_copy_ns=lambda size: size // 10, core_copy_ns=lambda size: size // 100)
TARGET: Any = SimpleNamespace(host=LINK)
DURATION = {"aten::mul.Tensor": 20_000, "aten::mm": 300_000, "graph": 50_000}


def modelled(spec: OpSpec | GraphSpec, target: object) -> Any:
    assert target is TARGET
    return SimpleNamespace(
        key=f"key of {spec.name}",
        name=spec.name,
        kernel="pointwise",
        bound="memory",
        confidence="unseen",
        flops=12,
        hbm_read_bytes=64,
        hbm_write_bytes=32,
        device_time_ns=DURATION[spec.name],
        engine_busy_ns=(0, 5, 7, 0, 0),
    )


class Source:
    """Stands for the extension: a log that the test fills, and signatures 1 = mul, 2 = mm."""

    def __init__(self) -> None:
        self.pending: list[np.ndarray] = []
        self.refs: list[np.ndarray] = []
        self.count = 2
        self.resets = 0
        self.described: list[int] = []
        self.memory_switches: list[bool] = []

    def describe_signature(self, signature: int) -> Any:
        self.described.append(signature)
        names = {1: "aten::mul.Tensor", 2: "aten::mm"}
        return (names[signature], (), (), (), (), ()) if signature in names else None

    def signature_count(self) -> int:
        return self.count

    def reset_signatures(self) -> None:
        self.count = 0
        self.resets += 1

    def drain_log(self) -> tuple[np.ndarray, np.ndarray]:
        log = np.concatenate(self.pending) if self.pending else np.empty(0, LOG_DTYPE)
        refs = np.concatenate(self.refs) if self.refs else np.empty(0, np.uint64)
        self.pending, self.refs = [], []
        return log.view(np.uint8), refs.view(np.uint8)

    def describe_stack(self, stack: int) -> list[tuple[str, int, str]]:
        return [("model.py", stack, "forward")]

    def reset_stacks(self) -> None:
        pass

    def live_storages(self) -> np.ndarray:
        return memory_event(storage=1, time_ns=0)

    def log_memory_events(self, on: bool) -> None:
        self.memory_switches.append(on)

    def drain_memory_events(self) -> np.ndarray:
        return np.concatenate([memory_event(storage=2, time_ns=70), memory_event(storage=1, time_ns=80, is_free=1)])


def record(kind: Kind = Kind.OP, enter: int = 0, length: int = 1_000, **fields: int) -> np.ndarray:
    log = np.zeros(1, LOG_DTYPE)
    log["kind"], log["enter_ns"], log["exit_ns"] = kind, enter, enter + length
    log["seq_nr"] = log["graph_task"] = -1
    log["thread"] = 7
    if kind == Kind.OP:
        log["signature"] = 1
    for name, value in fields.items():
        log[name] = value
    return log


def memory_event(**fields: int) -> np.ndarray:
    event = np.zeros(1, np.dtype([("time_ns", "<i8"), ("storage", "<u8"), ("is_free", "u1")]))
    for name, value in fields.items():
        event[name] = value
    return event


@pytest.fixture
def source() -> Source:
    return Source()


def make_timeline(source: Source, mode: Any = "modelled") -> Timeline:
    return Timeline(source, Durations(source, ProgramCache(TARGET, modelled)), COSTS, mode)


@pytest.fixture
def observers() -> Iterator[None]:
    before = list(windows_module._observers)
    yield
    windows_module._observers[:] = before


def test_op_spec_reads_the_extension_description() -> None:
    tensor = ("float32", (2, 3), (3, 1), 4)
    spec = op_spec(("aten::add.Tensor", (tensor, tensor), (tensor,), (("alpha", 1),), (0,), (0,)))
    assert spec.inputs[1].shape == (2, 3)
    assert spec.inputs[1].strides == (3, 1)
    assert spec.inputs[1].offset == 4
    assert spec.outputs[0].dtype == "float32"
    assert spec.scalar("alpha") == 1
    assert (spec.mutated, spec.aliased) == ((0,), (0,))


def test_program_cache_drops_the_least_recently_used() -> None:
    cache = ProgramCache(TARGET, modelled, capacity=2)
    mul, mm, graph = OpSpec("aten::mul.Tensor", (), ()), OpSpec("aten::mm", (), ()), GraphSpec("graph", "f", (), (), ())
    first = cache.get(mul)
    cache.get(mm)
    assert cache.get(mul) is first
    cache.get(graph)  # pushes mm out
    assert cache.get(mul) is first
    cache.get(mm)
    assert (cache.stats.hits, cache.stats.misses, cache.stats.evictions) == (2, 4, 2)
    assert len(cache) == 2


def test_durations_by_kind(source: Source) -> None:
    graph = register_graph(GraphSpec("graph", "forward", (), (), ()))
    assert graph >= GRAPH_BASE
    log = np.concatenate(
        [
            record(),
            record(signature=2),
            record(),
            record(Kind.GRAPH, signature=graph),
            record(Kind.COPY_H2D, aux=4_000),
            record(Kind.COPY_D2H, aux=50, signature=1),
            record(Kind.COPY_D2D, aux=4_000),
            record(Kind.DEVICE_SYNC),
            record(signature=99),
        ]
    )
    durations = Durations(source, ProgramCache(TARGET, modelled))
    assert durations.of(log).tolist() == [20_000, 300_000, 20_000, 50_000, 400, 5, 40, 0, 0]
    assert source.described == [1, 2, 99]
    durations.of(log[:3])
    assert source.described == [1, 2, 99]


def test_durations_forget_a_generation_but_still_answer_its_ids(source: Source) -> None:
    durations = Durations(source, ProgramCache(TARGET, modelled))
    log = np.concatenate([record(signature=2), record()])
    durations.of(log)
    durations.forget()
    assert durations.of(log).tolist() == [300_000, 20_000]


def test_fold_keeps_stream_state_only(source: Source) -> None:
    timeline = make_timeline(source)
    source.pending = [record(), record(), record(signature=2)]
    timeline.flush()
    # Host: three dispatches of 60 us. The device starts 1 us after each; the last runs from 181 us for 300 us.
    assert timeline.state.device_free_ns(0) == 481_000
    assert timeline.state.host_time_ns(7) == (1_000, 180_000)
    assert timeline._kept is None
    source.pending = [record(Kind.DEVICE_SYNC)]
    timeline.flush()
    assert timeline.state.host_time_ns(7) == (1_000, 481_000)


def test_fold_resets_a_full_signature_table_outside_of_windows_only(source: Source) -> None:
    timeline = make_timeline(source)
    source.count = 65_537
    timeline.open_window()
    assert source.resets == 1  # the fold before the window
    source.count = 65_537
    timeline.flush()
    assert source.resets == 1
    timeline.close_window()
    timeline.flush()
    assert source.resets == 2
    source.count = 65_536
    timeline.flush()
    assert source.resets == 2


def test_event_times(source: Source) -> None:
    timeline = make_timeline(source)
    source.pending = [record(), record(Kind.EVENT_RECORD, aux=5)]
    timeline.flush()
    assert timeline.event_time_ns(5) == 81_000
    with pytest.raises(RuntimeError, match="event recording 6 is not known"):
        timeline.event_time_ns(6)


def test_window_joins_its_flushes(source: Source) -> None:
    timeline = make_timeline(source)
    source.pending = [record()]
    timeline.open_window()
    source.pending, source.refs = [record(n_inputs=2)], [np.array([11, 12], np.uint64)]
    timeline.flush()
    source.pending, source.refs = [record(Kind.MARK), record(n_inputs=1)], [np.array([13], np.uint64)]
    segment = timeline.close_window()
    assert segment.refs.tolist() == [11, 12, 13]
    assert segment.log["tensors"].tolist() == [0, 2, 2]
    assert segment.exec_id.tolist() == [1, -1, 2]
    assert segment.duration_ns.tolist() == [20_000, 0, 20_000]
    assert segment.placed.device_start_ns.tolist() == [121_000, -1, 181_000]


def open_window(source: Source, config: str, mode: Any = "modelled", clock: int = 1_000_000) -> Windows:
    windows = Windows(source, make_timeline(source, mode))  # type: ignore[arg-type]
    windows.start(config, {"with_stack": True}, True)
    return windows


def test_plain_profile_places_kernels_beside_real_host_times(source: Source) -> None:
    windows = open_window(source, "")
    source.pending = [
        record(enter=1_000_000, correlation=3),
        record(enter=1_005_000, correlation=4, device=1, stream=2),
    ]
    windows.stop()
    raw, names, arguments, launch, as_kernels, as_driver = windows.finish()  # type: ignore[misc]
    rows = raw.view(EXECUTION_DTYPE)
    assert (as_kernels, as_driver, launch) == (True, False, "neuron_launch")
    assert rows["launch_start_ns"].tolist() == [1_000_000, 1_005_000]
    assert rows["launch_end_ns"].tolist() == [1_001_000, 1_006_000]
    assert rows["device_start_ns"].tolist() == [1_001_000, 1_006_000]
    assert rows["device_end_ns"].tolist() == [1_021_000, 1_026_000]
    assert rows["correlation"].tolist() == [3, 4]
    assert rows["device"].tolist() == [0, 1]
    assert rows["stream"].tolist() == [0, 2]
    assert rows["bytes"].tolist() == [96, 96]
    assert [names[i] for i in rows["name"]] == ["aten::mul.Tensor"] * 2
    assert arguments[rows["program"][0]] == [
        ("program", "key of aten::mul.Tensor", True),
        ("kernel", "pointwise", True),
        ("engine", "scalar", True),
        ("bound", "memory", True),
        ("confidence", "unseen", True),
        ("flops", "12", False),
        ("modelled", "true", False),
    ]


def test_configured_profile_is_in_virtual_time(source: Source, observers: None) -> None:
    seen: list[Any] = []
    windows_module.add_observer(start=seen.append, finish=lambda window, placed: seen.append((window, placed)))
    windows = open_window(source, "modes:device;correlate_device_time:true")
    source.pending = [
        record(Kind.COPY_H2D, aux=1_000),
        record(signature=2, stack=4),
        record(Kind.DEVICE_SYNC),
        record(),
    ]
    windows.stop()
    raw, names, _, _, as_kernels, as_driver = windows.finish()  # type: ignore[misc]
    start, (window, placed) = seen
    assert isinstance(start, WindowStart)
    assert isinstance(window, Window)
    assert isinstance(placed, Placed)
    assert (as_kernels, as_driver) == (True, True)
    assert (start.number, window.number, window.torch_flags) == (1, 1, {"with_stack": True})
    assert window.real_start_ns == start.real_start_ns <= window.real_end_ns
    # The window's virtual start is its real one. The copy costs 10 us to issue, starts 1 us later, takes 100 ns.
    relative = placed.device_start_ns - start.real_start_ns
    assert relative[[0, 1, 3]].tolist() == [11_000, 72_100, 72_100 + 300_000 + 61_000]
    assert placed.device_start_ns[2] == placed.device_end_ns[2] == -1
    assert placed.exec_id.tolist() == [0, 1, -1, 2]
    assert placed.program.tolist() == [-1, 0, -1, 1]
    assert [program.name for program in placed.programs] == ["aten::mm", "aten::mul.Tensor"]
    assert window.specs[2].name == "aten::mm"
    assert window.stacks == {4: [("model.py", 4, "forward")]}
    rows = raw.view(EXECUTION_DTYPE)
    assert [names[i] for i in rows["name"]] == ["memcpy HtoD", "aten::mm", "aten::mul.Tensor"]
    assert rows["category"].tolist() == [1, 0, 0]
    assert rows["bytes"].tolist() == [1_000, 96, 96]


def test_second_window_continues_where_the_process_stands(source: Source) -> None:
    windows = open_window(source, "modes:device")
    source.pending = [record(signature=2)]
    windows.stop()
    windows.finish()
    source.pending = [record()]
    windows.start("modes:device", {}, True)
    opened = windows._open
    assert opened is not None
    source.pending = [record()]
    windows.stop()
    raw = windows.finish()[0]  # type: ignore[index]
    rows = raw.view(EXECUTION_DTYPE)
    # Two dispatches before the window (120 us), one in it; the mm keeps the stream until 361 us, the mul until 381 us.
    assert rows["exec_id"].tolist() == [2]
    assert (rows["device_start_ns"] - opened.info.real_start_ns).tolist() == [381_000 - 120_000]


def test_observer_errors_become_warnings(source: Source, observers: None) -> None:
    def broken(*_: object) -> None:
        raise OSError("disk full")

    windows_module.add_observer(start=broken, finish=broken)
    with pytest.warns(RuntimeWarning, match="OSError: disk full"):
        windows = open_window(source, "modes:device")
    source.pending = [record()]
    windows.stop()
    with pytest.warns(RuntimeWarning, match="OSError: disk full"):
        emitted = windows.finish()
    assert emitted is not None
    assert len(emitted[0].view(EXECUTION_DTYPE)) == 1


def test_memory_is_logged_inside_of_the_window_only(source: Source, observers: None) -> None:
    seen: list[Window] = []
    windows_module.add_observer(finish=lambda window, placed: seen.append(window))
    windows = open_window(source, "modes:device")
    assert source.memory_switches == [True]
    windows.stop()
    windows.finish()
    assert source.memory_switches == [True, False]
    events = seen[0].memory_events
    assert events["storage"].tolist() == [1, 2, 1]
    assert events["time_ns"].tolist() == [0, 70, 80]
    assert events["is_free"].tolist() == [0, 0, 1]


def test_window_without_records(source: Source) -> None:
    windows = open_window(source, "")
    windows.stop()
    emitted = windows.finish()
    assert emitted is not None
    assert len(emitted[0]) == 0
    assert windows.finish() is None


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("correlate_device_time:true", True),
        ("modes:device; correlate_device_time: True", True),
        ("correlate_device_time:false", False),
        ("modes:device", False),
        ("profile_output_dir:correlate_device_time%3Atrue", False),
    ],
)
def test_wants_kernels(config: str, expected: bool) -> None:
    assert wants_kernels(config) is expected


def test_backward_inherits_stack_and_module() -> None:
    backward = int(Phase.BACKWARD)
    log = np.concatenate(
        [
            record(seq_nr=1, stack=5, module=9),
            record(seq_nr=1, stack=6, module=8),  # a later op with the same number: the first one counts
            record(seq_nr=2, stack=7, module=3),
            record(seq_nr=2, phase=backward, thread=8),
            record(seq_nr=1, phase=backward, thread=8, module=2),
            record(seq_nr=4, phase=backward, thread=8),
            record(seq_nr=-1, phase=backward, thread=8),
        ]
    )
    inherit_from_forward(log)
    assert log["stack"].tolist() == [5, 6, 7, 7, 5, 0, 0]
    assert log["module"].tolist() == [9, 8, 3, 3, 2, 0, 0]


def test_backward_inherits_nothing_when_two_threads_share_a_number() -> None:
    log = np.concatenate(
        [record(seq_nr=1, stack=5), record(seq_nr=1, stack=6, thread=9), record(seq_nr=1, phase=int(Phase.BACKWARD))]
    )
    inherit_from_forward(log)
    assert log["stack"].tolist() == [5, 6, 0]


def test_busiest_engine() -> None:
    assert busiest_engine(SimpleNamespace(engine_busy_ns=(1, 5, 7, 0, 0))) == "scalar"  # type: ignore[arg-type]
    assert busiest_engine(SimpleNamespace(engine_busy_ns=(0, 0, 0, 0, 0))) == "dma"  # type: ignore[arg-type]
