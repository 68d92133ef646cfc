"""Tables of a capture, worked out by hand for small windows. Times in the comments are microseconds after START."""

import json

import numpy as np
import pyarrow as pa
import pytest

from trnscope.profiling import framework_tables, host_tables, memory_tables, runtime_tables
from trnscope.profiling.device_files import containers, device_tables, used_programs
from trnscope.profiling.placement import PlacedWindow
from trnscope.profiling.settings import Settings
from trnscope.schema.capture import CaptureLayout
from trnscope.schema.records import MEMORY_EVENT_DTYPE, Flag, Kind, Origin, Phase
from trnscope.store.writer import arrow_table
from window_builder import (
    MAIN,
    MUL,
    START,
    WORKER,
    placed,
    program_of,
    record,
)

US = 1_000


def rows(table: str, columns: dict[str, object], *names: str) -> list[tuple[object, ...]]:
    """The named columns of a table, checked against the contract; times relative to START."""
    checked = arrow_table(table, columns).to_pydict()
    return [
        tuple(value - START if isinstance(value, int) and value > START // 2 else value for value in row)
        for row in zip(*(checked[name] for name in names), strict=True)
    ]


@pytest.fixture
def walk() -> PlacedWindow:
    # measured: Python 10; mul 10..70 runs 71..101; Python 10; exp 80..140 runs 141..191; a copy back, blocking:
    # issued 140..160, starts 191 (stream busy), ends 195; a sync of 5.
    return placed(
        [
            record(Kind.OP, 10 * US, 500 * US, 1, tensors=0, n_inputs=2, n_outputs=1, correlation=7, stack=1, module=2),
            record(Kind.MARK, 500 * US, 500 * US),
            record(Kind.OP, 510 * US, 600 * US, 2, tensors=3, n_inputs=1, n_outputs=1, phase=Phase.OPTIMIZER,
                   flags=Flag.MUTATES),
            record(Kind.COPY_D2H, 600 * US, 650 * US, 3, tensors=5, n_inputs=1, aux=128, origin=Origin.COPY),
            record(Kind.DEVICE_SYNC, 650 * US, 660 * US),
            record(Kind.VIEW, 660 * US, 661 * US, 1),
        ],
        references=[21, 22, 23, 23, 24, 24],
        end=700 * US,
    )  # fmt: skip


def test_op_records(walk: PlacedWindow) -> None:
    columns = framework_tables.op_records(walk)
    assert rows("OpRecord", columns, "op_id", "op", "program_id", "exec_id", "host_start_ns", "host_end_ns") == [
        (0, "aten::mul.Tensor", 0, 0, 10 * US, 70 * US),
        (2, "aten::exp", 1, 1, 80 * US, 140 * US),
        (3, "aten::_copy_from", None, 2, 140 * US, 195 * US),
        (5, "aten::mul.Tensor", None, None, 200 * US, 201 * US),
    ]
    assert rows("OpRecord", columns, "inputs", "outputs", "phase", "origin", "is_view", "mutates", "step") == [
        ([21, 22], [23], "forward", "eager", False, False, 0),
        ([23], [24], "optimizer", "eager", False, True, 1),
        ([24], [], "forward", "copy", False, False, 1),
        ([], [], "forward", "eager", True, False, 1),
    ]
    assert rows("OpRecord", columns, "submit_ns", "dispatch_ns", "correlation", "stack_id", "module_id")[:2] == [
        (10 * US, 490 * US, 7, 1, 2),
        (510 * US, 90 * US, 0, None, None),
    ]
    tensor = {"dtype": "float32", "shape": [4, 8], "strides": [8, 1], "offset": 0}
    assert json.loads(columns["signature_json"][0].as_py()) == {
        "inputs": [tensor, tensor],
        "mutated": [],
        "outputs": [tensor],
        "aliased": [],
        "scalars": [],
    }


def test_executions(walk: PlacedWindow) -> None:
    columns = framework_tables.executions(walk, frozenset())
    assert rows(
        "Execution", columns, "exec_id", "program_id", "op_id", "category", "name", "submit_ns", "start_ns", "end_ns",
        "device_time_ns", "bytes", "flow_id", "first_use",
    ) == [
        (0, 0, 0, "kernel", "aten::mul.Tensor", 70 * US, 71 * US, 101 * US, 30 * US, None, 1, True),
        (1, 1, 2, "kernel", "aten::exp", 140 * US, 141 * US, 191 * US, 50 * US, None, 2, True),
        (2, None, 3, "copy", "memcpy DtoH", 160 * US, 191 * US, 195 * US, 4 * US, 128, 3, False),
    ]  # fmt: skip


def test_first_use_is_per_program_and_core_and_not_for_programs_from_before() -> None:
    window = placed([record(Kind.OP, i, i, s, device=d) for i, (s, d) in enumerate([(1, 0), (1, 1), (1, 0), (2, 0)])])
    assert framework_tables.executions(window, frozenset())["first_use"].tolist() == [True, True, False, True]
    known = framework_tables.executions(window, {program_of(1).key})
    assert known["first_use"].tolist() == [False, False, False, True]


def test_programs(walk: PlacedWindow) -> None:
    columns = framework_tables.programs(walk.placed.programs)
    expected = [program_of(1), program_of(2)]
    assert rows("Program", columns, "program_id", "key", "name", "device_time_ns", "hbm_read_bytes") == [
        (i, one.key, one.name, one.device_time_ns, one.hbm_read_bytes) for i, one in enumerate(expected)
    ]


def test_host_intervals_split_calls_that_wait(walk: PlacedWindow) -> None:
    names = ("thread", "category", "start_ns", "end_ns", "op_id", "uncertain")
    assert rows("HostInterval", host_tables.host_intervals(walk), *names) == [
        (MAIN, "python", 0, 10 * US, None, False),
        (MAIN, "dispatch", 10 * US, 70 * US, 0, False),
        (MAIN, "python", 70 * US, 80 * US, None, False),
        (MAIN, "dispatch", 80 * US, 140 * US, 2, False),
        (MAIN, "copy", 140 * US, 160 * US, 3, False),
        (MAIN, "sync", 160 * US, 191 * US, 3, False),
        (MAIN, "copy", 191 * US, 195 * US, 3, False),
        (MAIN, "sync", 195 * US, 200 * US, 4, False),
        (MAIN, "python", 200 * US, 240 * US, None, False),
    ]
    assert (walk.start_ns - START, walk.end_ns - START) == (0, 240 * US)


def test_blocking_launch_waits_as_sync() -> None:
    window = placed([record(Kind.OP, 0, 90 * US, 1, flags=Flag.BLOCKING)], end=90 * US)
    assert rows("HostInterval", host_tables.host_intervals(window), "category", "start_ns", "end_ns") == [
        ("dispatch", 0, 60 * US),
        ("sync", 60 * US, 61 * US),  # launch latency
        ("sync", 61 * US, 91 * US),
    ]


def test_backward_counts_once_for_the_thread_that_waits_for_it() -> None:
    window = placed(
        [
            record(Kind.OP, 0, 100 * US, 1),
            record(Kind.OP, 150 * US, 900 * US, 2, thread=WORKER, graph_task=0, phase=Phase.BACKWARD),
            record(Kind.OP, 920 * US, 950 * US, 1),
        ],
        end=950 * US,
    )
    assert rows("HostInterval", host_tables.host_intervals(window), "thread", "category", "start_ns", "end_ns") == [
        (MAIN, "dispatch", 0, 60 * US),
        (MAIN, "python", 60 * US, 110 * US),
        (MAIN, "dispatch", 110 * US, 170 * US),
        (MAIN, "python", 170 * US, 190 * US),
        (MAIN, "dispatch", 190 * US, 250 * US),
    ]
    assert rows("OpRecord", framework_tables.op_records(window), "thread", "phase")[1] == (WORKER, "backward")


def test_clock_sync(walk: PlacedWindow) -> None:
    knots = rows("ClockSync", host_tables.clock_sync(walk), "thread", "real_ns", "virtual_ns")
    assert knots[:2] == [(MAIN, 10 * US, 10 * US), (MAIN, 500 * US, 70 * US)]
    assert knots[-1] == (MAIN, 661 * US, 201 * US)


def test_steps() -> None:
    op, mark = (lambda t: record(Kind.OP, t, t + 1, 1)), (lambda t: record(Kind.MARK, t, t))
    none = placed([op(0)], end=10)
    assert rows("Step", host_tables.steps(none), "step", "start_ns", "end_ns") == [(0, 0, 60 * US + 9)]
    two = placed([op(0), mark(5), op(6), mark(9), record(Kind.DEVICE_SYNC, 9, 10)], end=10)
    assert rows("Step", host_tables.steps(two), "step", "start_ns", "end_ns") == [
        (0, 0, 60 * US + 4),
        (1, 60 * US + 4, 120 * US + 7),
    ]
    rest = placed([op(0), mark(5), op(6)], end=10)
    assert [step for step, *_ in rows("Step", host_tables.steps(rest), "step", "start_ns")] == [0, 1]


def test_runtime_events_join_framework_and_hardware(walk: PlacedWindow) -> None:
    columns = runtime_tables.system_profile_events(
        walk, {program_of(1).key}, instance="trn2.3xlarge", process_id=9, rank=3, physical_cores=2,
        launch_latency_ns=1 * US,
    )  # fmt: skip
    found = rows(
        "SystemProfileEvents", columns, "name", "trace_event_source", "start_ts", "end_ts", "pcore_idx", "flow_id"
    )
    assert [row for row in found if row[-1] == ["1"]] == [
        ("aten::mul.Tensor", "framework", 10 * US, 70 * US, None, ["1"]),
        ("privateuse1_runtime", "framework", 10 * US, 70 * US, None, ["1"]),
        ("nrt_execute", "neuron_rt", 70 * US, 101 * US, None, ["1"]),
        ("kbl_exec_pre", "neuron_rt", 70 * US, 71 * US, None, ["1"]),
        ("kbl_exec_wait", "neuron_rt", 71 * US, 101 * US, None, ["1"]),
        ("nc_exec_running", "neuron_hw", 71 * US, 101 * US, 0, ["1"]),
        ("nc_exec_running", "neuron_hw", 71 * US, 101 * US, 1, ["1"]),
    ]
    assert [row[0] for row in found if row[-1] == ["2"]].count("nrt_load") == 1
    assert [row for row in found if row[-1] == ["3"]] == [
        ("aten::_copy_from", "framework", 140 * US, 195 * US, None, ["3"]),
        ("privateuse1_runtime", "framework", 140 * US, 160 * US, None, ["3"]),
        ("nrt_tensor_read", "neuron_rt", 190 * US, 195 * US, None, ["3"]),
        ("dmem_buf_copyout", "neuron_rt", 191 * US, 195 * US, None, ["3"]),
    ]
    assert [start for _, _, start, *_ in found] == sorted(start for _, _, start, *_ in found)
    table = arrow_table("SystemProfileEvents", columns).to_pydict()
    assert table["id"] == list(range(len(found)))
    assert set(table["instance_id"]) == {"trn2.3xlarge"}
    assert (set(table["process_id"]), set(table["worker_gid"])) == ({9}, {3})
    assert {(s, t) for s, t in zip(table["trace_event_source"], table["thread_id"], strict=True)} == {
        ("framework", MAIN), ("neuron_rt", MAIN), ("neuron_hw", 0),
    }  # fmt: skip
    assert json.loads(table["extra_attributes_json"][0]) == {
        "exec_id": 0, "model_name": "aten::mul.Tensor", "program": program_of(1).key, "modelled": True,
    }  # fmt: skip
    assert json.loads(table["extra_attributes_json"][-1]) == {"exec_id": 2, "modelled": True}


def test_ring_buffer_drops_the_oldest_of_each_core() -> None:
    records = [record(Kind.OP, i, i, 1, device=i % 2) for i in range(7)]  # core 0: 0 2 4 6, core 1: 1 3 5
    window = placed(records, settings=Settings(max_events_per_nc=2))
    assert window.placed.exec_id[window.kept].tolist() == [3, 4, 5, 6]
    assert window.dropped == 3
    assert framework_tables.op_records(window)["exec_id"].to_pylist() == [None, None, None, 3, 4, 5, 6]


def test_core_filter() -> None:
    records = [record(Kind.OP, i, i, 1, device=i) for i in range(4)]
    window = placed(records, settings=Settings(capture_enabled_for_nc=(1, 3)))
    assert window.placed.exec_id[window.kept].tolist() == [1, 3]
    assert window.dropped == 0


def test_memory() -> None:
    events = np.array(
        [
            (0, 5, 4096, 100, 256, 256, 1 << 20, 0, 0),  # from before the window
            (START + 20 * US, 6, 8192, 300, 512, 768, 1 << 20, 0, 0),
            (START + 30 * US, 5, 4096, 100, 256, 512, 1 << 20, 0, 1),
        ],
        MEMORY_EVENT_DTYPE,
    )
    window = placed([record(Kind.OP, 0, 40 * US, 1)], memory_events=events)
    assert rows(
        "Tensor", memory_tables.tensors(window), "storage_id", "bytes", "reserved_bytes", "alloc_ns", "free_ns"
    ) == [
        (5, 100, 256, None, 45 * US),  # 30 of 40 us of the dispatch: 45 of its 60 us
        (6, 300, 512, 30 * US, None),
    ]
    assert rows("SystemProfileHbmUsage", memory_tables.hbm_usage(window), "timestamp", "allocated_bytes") == [
        (30 * US, 768),
        (45 * US, 512),
    ]


def test_device_tables_and_containers_hold_what_ran() -> None:
    window = placed(
        [record(Kind.OP, 0, 1, 1), record(Kind.OP, 1, 2, 2, device=1), record(Kind.OP, 2, 3, 1)],
        settings=Settings(capture_enabled_for_nc=(0,)),
    )
    assert used_programs(window) == [0]
    tables = device_tables(window.placed.programs, used_programs(window))
    assert set(tables) == {"ProgramInstruction", "ProgramDmaPacketAggregated", "ProgramActiveTime"}
    for name, table in tables.items():
        assert set(table["program_id"].to_pylist()) == {0}
        arrow_table(name, {column: table[column] for column in table.column_names})
    files = dict(containers(window))
    key = program_of(1).key
    assert set(files) == {f"neff_{key}_vnc_0.neff", "profile_nc_0_session_1.ntff"}
    magic, about = files[f"neff_{key}_vnc_0.neff"]
    assert magic == CaptureLayout.NEFF_MAGIC
    assert json.loads(about)["name"] == MUL.name
    magic, about, stream = files["profile_nc_0_session_1.ntff"]
    assert magic == CaptureLayout.NTFF_MAGIC
    assert json.loads(about) == {"nc_idx": 0, "session": 1, "executions": 2, "modelled": True}
    assert pa.ipc.open_stream(stream).read_all().to_pydict() == {
        "exec_id": [0, 2],
        "program": [key, key],
        "start_ns": window.placed.device_start_ns[[0, 2]].tolist(),
        "end_ns": window.placed.device_end_ns[[0, 2]].tolist(),
    }


def test_an_empty_window_has_every_table() -> None:
    window = placed([], end=1 * US)
    assert arrow_table("OpRecord", framework_tables.op_records(window)).num_rows == 0
    assert arrow_table("Execution", framework_tables.executions(window, frozenset())).num_rows == 0
    assert arrow_table("Program", framework_tables.programs(())).num_rows == 0
    assert arrow_table("ClockSync", host_tables.clock_sync(window)).num_rows == 0
    assert rows("HostInterval", host_tables.host_intervals(window), "category", "start_ns", "end_ns") == [
        ("python", 0, 1 * US)
    ]
    assert rows("Step", host_tables.steps(window), "start_ns", "end_ns") == [(0, 1 * US)]
    assert device_tables((), used_programs(window)) == {}
    assert list(containers(window)) == []
    events = runtime_tables.system_profile_events(
        window, frozenset(), instance="i", process_id=1, rank=0, physical_cores=2, launch_latency_ns=1
    )
    assert arrow_table("SystemProfileEvents", events).num_rows == 0
