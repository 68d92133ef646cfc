"""The virtual clock on small scripts whose times are worked out by hand. Unit: nanoseconds."""

import numpy as np
import pytest

from trnscope.core.clock import ClockCosts, ClockState, Replay, host_map, replay, submit_times
from trnscope.core.clock_layout import MAX_EVENTS, MAX_THREADS
from trnscope.schema.records import LOG_DTYPE, Flag, Kind

COSTS = ClockCosts(
    eager_dispatch_ns=60_000,
    compiled_launch_ns=95_000,
    launch_latency_ns=1_000,
    copy_overhead_ns=20_000,
    sync_overhead_ns=5_000,
)
MAIN, WORKER, OTHER = 100, 200, 300


def record(kind: Kind, enter: int, leave: int, *, thread: int = MAIN, task: int = -1, **more: int) -> dict[str, int]:
    return {"kind": kind, "enter_ns": enter, "exit_ns": leave, "thread": thread, "graph_task": task, **more}


def run(
    records: list[dict[str, int]], durations: list[int] | None = None, mode: str = "measured"
) -> tuple[ClockState, Replay, np.ndarray]:
    log = np.zeros(len(records), LOG_DTYPE)
    for i, fields in enumerate(records):
        for name, value in fields.items():
            log[name][i] = value
    state, placed = replay(ClockState.initial(), log, np.array(durations or [0] * len(log)), COSTS, mode)
    return state, placed, log


def test_dispatch_is_replaced_and_python_passes() -> None:
    # Real: 2 ms of computing inside each dispatch, 10 us of Python in between.
    _, placed, _ = run([record(Kind.OP, 0, 2_000_000), record(Kind.GRAPH, 2_010_000, 4_000_000)], [30_000, 50_000])
    assert placed.host_start_ns.tolist() == [0, 60_000 + 10_000]
    assert placed.host_end_ns.tolist() == [60_000, 70_000 + 95_000]
    assert placed.device_start_ns.tolist() == [61_000, 166_000]
    assert placed.device_end_ns.tolist() == [91_000, 216_000]


def test_stream_is_in_order_and_sync_ends_at_completion() -> None:
    state, placed, _ = run(
        [record(Kind.OP, 0, 10), record(Kind.OP, 10, 20), record(Kind.DEVICE_SYNC, 20, 30)],
        [500_000, 200_000, 0],
        "modelled",
    )
    assert placed.device_start_ns.tolist() == [61_000, 561_000, -1]
    assert placed.host_end_ns.tolist() == [60_000, 120_000, 761_000]
    assert state.device_free_ns(0) == 761_000
    assert state.device_free_ns(0, stream=1) is None
    assert state.host_time_ns(MAIN) == (30, 761_000)
    assert state.host_time_ns(OTHER) is None


def test_sync_of_an_idle_device_costs_its_call() -> None:
    _, placed, _ = run([record(Kind.DEVICE_SYNC, 0, 10), record(Kind.STREAM_SYNC, 10, 20)], mode="modelled")
    assert placed.host_end_ns.tolist() == [5_000, 10_000]


@pytest.mark.parametrize(
    ("kind", "flags", "waits"),
    [
        (Kind.COPY_D2H, 0, True),
        (Kind.COPY_D2H, Flag.NON_BLOCKING, False),
        (Kind.COPY_D2H, Flag.NON_BLOCKING | Flag.BLOCKING, True),
        (Kind.COPY_H2D, 0, True),
        (Kind.COPY_H2D, Flag.NON_BLOCKING, False),
        (Kind.COPY_D2D, 0, False),
    ],
)
def test_blocking_copies_wait_for_their_stream(kind: Kind, flags: int, waits: bool) -> None:
    _, placed, _ = run([record(Kind.OP, 0, 10), record(kind, 10, 20, flags=flags)], [500_000, 40_000], "modelled")
    assert placed.device_start_ns.tolist() == [61_000, 561_000]
    assert placed.host_end_ns[1] == (601_000 if waits else 80_000)


def test_blocking_launch_waits_for_itself() -> None:
    _, placed, _ = run([record(Kind.OP, 0, 10, flags=Flag.BLOCKING)], [500_000], "modelled")
    assert placed.host_end_ns.tolist() == [561_000]


def test_events_order_streams_and_time_them() -> None:
    state, placed, _ = run(
        [
            record(Kind.OP, 0, 1, stream=0),  # 61..561 us
            record(Kind.EVENT_RECORD, 1, 2, stream=0, aux=0),
            record(Kind.EVENT_WAIT, 2, 3, stream=1, aux=0),
            record(Kind.OP, 3, 4, stream=1),
            record(Kind.EVENT_RECORD, 4, 5, stream=1, aux=1),
            record(Kind.EVENT_SYNC, 5, 6, aux=1),
            record(Kind.EVENT_RECORD, 6, 7, device=1, aux=2),  # idle: reaches the device after the latency
        ],
        [500_000, 0, 0, 100_000, 0, 0, 0],
        "modelled",
    )
    assert placed.device_start_ns[3] == 561_000
    assert placed.host_end_ns.tolist() == [60_000, 65_000, 70_000, 130_000, 135_000, 661_000, 666_000]
    assert [state.event_time_ns(e) for e in (0, 1, 2, 3, -1)] == [561_000, 661_000, 667_000, None, None]
    assert not placed.uncertain.any()


def test_waiting_for_a_forgotten_event_is_uncertain() -> None:
    records = [record(Kind.EVENT_RECORD, 0, 1, aux=0), record(Kind.EVENT_RECORD, 1, 2, aux=MAX_EVENTS)]
    state, placed, _ = run([*records, record(Kind.EVENT_SYNC, 2, 3, aux=0)], mode="modelled")
    assert state.event_time_ns(0) is None
    assert placed.uncertain.tolist() == [False, False, True]
    assert placed.host_end_ns[2] == 15_000


def test_backward_is_handed_over_and_the_caller_resumes_at_its_end() -> None:
    # main: op, backward() from 1.1 ms; worker computes 3 ms of values in two ops; main goes on 50 us after them.
    ms = 1_000_000
    _, placed, log = run(
        [
            record(Kind.OP, 0, ms),
            record(Kind.OP, ms + 100_000, 2 * ms, thread=WORKER, task=0),
            record(Kind.OP, 2 * ms + 20_000, 4 * ms, thread=WORKER, task=0),
            record(Kind.OP, 4 * ms + 50_000, 5 * ms),
            record(Kind.OP, 5 * ms + 30_000, 6 * ms, thread=WORKER, task=1),
        ]
    )
    assert placed.host_start_ns.tolist() == [0, 160_000, 240_000, 350_000, 440_000]
    assert placed.host_end_ns.tolist() == [60_000, 220_000, 300_000, 410_000, 500_000]
    assert placed.lender.tolist() == [-1, MAIN, MAIN, -1, MAIN]
    assert not placed.uncertain.any()
    # The caller's own CPU events inside of backward() see the worker's time.
    assert host_map(log, placed).map_times(MAIN, [ms + 100_000, 2 * ms, 4 * ms, 4 * ms + 50_000]).tolist() == [
        160_000, 220_000, 300_000, 350_000,
    ]  # fmt: skip


def test_two_workers_of_one_backward_share_the_callers_clock() -> None:
    _, placed, _ = run(
        [
            record(Kind.OP, 0, 10),
            record(Kind.OP, 20, 90, thread=WORKER, task=0),
            record(Kind.OP, 30, 80, thread=WORKER + 1, task=0, device=1),
            record(Kind.OP, 100, 110),
        ],
        mode="modelled",
    )
    assert placed.host_start_ns.tolist() == [0, 60_000, 120_000, 180_000]
    assert placed.lender.tolist() == [-1, MAIN, MAIN, -1]
    assert not placed.uncertain.any()


def test_owner_of_a_backward_is_a_guess_with_two_busy_threads() -> None:
    _, placed, _ = run(
        [
            record(Kind.OP, 0, 10),
            record(Kind.OP, 20, 30, thread=OTHER),
            record(Kind.OP, 40, 50, thread=WORKER, task=0),
        ]
    )
    assert placed.lender.tolist() == [-1, -1, OTHER]
    assert placed.uncertain.tolist() == [False, False, True]


def test_a_dormant_thread_does_not_spoil_later_backwards() -> None:
    _, placed, _ = run(
        [
            record(Kind.OP, 0, 10, thread=OTHER),  # e.g. built the model, then nothing
            record(Kind.OP, 20, 30),
            record(Kind.OP, 40, 50, thread=WORKER, task=0),
            record(Kind.OP, 60, 70),
            record(Kind.OP, 80, 90, thread=WORKER, task=1),
            record(Kind.OP, 100, 110),
        ]
    )
    assert placed.uncertain.tolist() == [False, False, True, False, False, False]
    assert placed.lender.tolist() == [-1, -1, MAIN, -1, MAIN, -1]


def test_threads_beside_each_other_pass_real_time_and_say_so() -> None:
    _, placed, _ = run(
        [
            record(Kind.OP, 0, 1_000_000),
            record(Kind.OP, 1_000_000, 3_000_000, thread=OTHER),
            record(Kind.OP, 3_500_000, 3_600_000),
        ]
    )
    # OTHER continues from MAIN's end; MAIN's own gap of 2.5 ms passes in full.
    assert placed.host_start_ns.tolist() == [0, 60_000, 60_000 + 2_500_000]
    assert placed.uncertain.tolist() == [False, False, True]


def test_paced_leaves_host_times_alone() -> None:
    _, placed, _ = run(
        [record(Kind.OP, 100, 5_000), record(Kind.OP, 6_000, 9_000), record(Kind.DEVICE_SYNC, 9_000, 9_500)],
        [40_000, 10_000, 0],
        "paced",
    )
    assert placed.host_start_ns.tolist() == [100, 6_000, 9_000]
    assert placed.host_end_ns.tolist() == [5_000, 9_000, 9_500]
    assert placed.device_start_ns.tolist() == [1_100, 41_100, -1]


def test_views_and_marks_pass_like_python() -> None:
    records = [record(Kind.VIEW, 0, 700), record(Kind.MARK, 700, 900), record(Kind.OP, 1_000, 2_000)]
    for mode, starts in (("measured", [0, 700, 1_000]), ("modelled", [0, 0, 0])):
        _, placed, _ = run(records, mode=mode)
        assert placed.host_start_ns.tolist() == starts


def test_shifted_moves_every_clock() -> None:
    state, _, _ = run([record(Kind.OP, 0, 1), record(Kind.EVENT_RECORD, 1, 2, aux=5)], [100, 0], "modelled")
    moved = state.shifted(1_000)
    assert moved.device_free_ns(0) == 62_100
    assert moved.host_time_ns(MAIN) == (2, 66_000)
    assert moved.event_time_ns(5) == 67_000
    assert moved.event_time_ns(4) is None
    assert state.event_time_ns(5) == 66_000


def test_threads_are_bounded() -> None:
    state, _, _ = run(
        [record(Kind.OP, 10 * i, 10 * i + 5, thread=1_000 + i) for i in range(MAX_THREADS + 3)], mode="modelled"
    )
    assert len(state.threads) == MAX_THREADS
    assert state.host_time_ns(1_002) is None
    assert state.host_time_ns(1_003) is not None


def test_threads_without_records_follow_the_busiest_one() -> None:
    _, placed, log = run([record(Kind.OP, 0, 1_000_000), record(Kind.OP, 1_000_000, 2_000_000)])
    mapping = host_map(log, placed)
    times = [-50, 500_000, 2_000_040]
    assert mapping.map_times(OTHER, times).tolist() == mapping.map_times(MAIN, times).tolist() == [-50, 30_000, 120_040]


def test_bad_arguments_are_named() -> None:
    log, none = np.zeros(2, LOG_DTYPE), np.zeros(2, np.int64)
    state = ClockState.initial()
    with pytest.raises(ValueError, match="mode is 'fast', must be one of measured, modelled, paced"):
        replay(state, log, none, COSTS, "fast")
    with pytest.raises(ValueError, match="2 records but"):
        replay(state, log, none[:1], COSTS, "paced")
    with pytest.raises(ValueError, match="duration of record 1 is negative"):
        replay(state, log, np.array([0, -1]), COSTS, "paced")
    with pytest.raises(ValueError, match="vector of LOG_DTYPE"):
        replay(state, none, none, COSTS, "paced")
    with pytest.raises(ValueError, match="launch_latency_ns is -1"):
        ClockCosts(1, 1, -1, 1, 1)


def test_submit_is_the_end_of_the_dispatch_whatever_is_waited_for() -> None:
    records = [
        record(Kind.OP, 0, 10, flags=Flag.BLOCKING),
        record(Kind.GRAPH, 20, 30),
        record(Kind.COPY_D2H, 30, 40),
        record(Kind.EVENT_RECORD, 40, 50),
        record(Kind.VIEW, 50, 60),
    ]
    _, placed, log = run(records, [500_000, 1_000, 2_000, 0, 0])
    # op ends at 561 us; 10 ns of Python; graph 95 us, runs until 657.01; copy waits 20 + 1 us, ends at 679.01 us
    assert placed.host_end_ns.tolist() == [561_000, 656_010, 679_010, 684_010, 684_020]
    assert submit_times(log, placed, COSTS).tolist() == [60_000, 656_010, 676_010, 684_010, 684_020]
    _, paced, _ = run(records, [500_000, 1_000, 2_000, 0, 0], "paced")
    assert submit_times(log, paced, COSTS).tolist() == [0, 20, 30, 40, 50]
