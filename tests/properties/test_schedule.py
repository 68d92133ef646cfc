"""The scheduler: equal to an event simulation, exact in its extrapolation, never faster than what it consists of."""

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from properties.heap_oracle import HeapCore
from trnscope.chips import Target
from trnscope.core import isa, schedule_kernel
from trnscope.core import schedule as schedule_module
from trnscope.core.builder import CoreBuilder
from trnscope.core.isa import DATA, HBM, N_ENGINES, N_RESOURCES, SBUF, VECTOR
from trnscope.core.machine import Machine, machine_of
from trnscope.core.program import CoreProgram, Program, Transfers
from trnscope.core.schedule import CoreSchedule, schedule
from trnscope.schema.vocabulary import STALL_REASONS

MACHINE = replace(machine_of(Target()), dma_threshold_bytes=40_000)
SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def scheduled(core: CoreProgram, machine: Machine = MACHINE, *, extrapolate: bool = True) -> CoreSchedule:
    return schedule(Program("p", "k", "none", (core,)), machine, extrapolate=extrapolate).cores[0]


@st.composite
def programs(draw: st.DrawFn, max_rows: int, max_loop: int, max_block: int, transfers: bool = True) -> CoreProgram:
    """Random programs: any engines and rings, any waits for earlier values, nested run-length loops."""
    n = draw(st.integers(1, max_rows))
    resource = draw(st.lists(st.integers(0, N_RESOURCES - 1 if transfers else N_ENGINES - 1), min_size=n, max_size=n))
    cycles = draw(st.lists(st.integers(0, 3000), min_size=n, max_size=n))
    sizes = draw(st.lists(st.sampled_from([0, 64, 4096, 20_000]), min_size=n, max_size=n))
    # Two semaphores per engine or ring: each has one producer that completes in order.
    raises = draw(st.lists(st.integers(-1, 1), min_size=n, max_size=n))
    waits = draw(
        st.lists(
            st.lists(st.tuples(st.integers(0, 2 * N_RESOURCES - 1), st.integers(0, 3)), max_size=3),
            min_size=n,
            max_size=n,
        )
    )
    cuts = sorted(draw(st.sets(st.integers(1, n), max_size=3)) - {n})
    bounds = [0, *cuts, n]
    loops = [(a, b - a, draw(st.integers(1, max_loop))) for a, b in itertools.pairwise(bounds)]
    together = draw(st.integers(1, len(loops)))
    blocks = [(0, together, draw(st.integers(1, max_block)))]
    if together < len(loops):
        blocks.append((together, len(loops) - together, draw(st.integers(1, max_block))))
    moving = np.array(resource) >= N_ENGINES
    transfer = np.where(moving, np.cumsum(moving) - 1, -1)
    flat = [pair for row in waits for pair in row]
    moved = np.array([s for s, m in zip(sizes, moving, strict=True) if m], np.int64)
    loop_array, block_array = np.array(loops, np.int64), np.array(blocks, np.int64)
    return CoreProgram(
        resource=np.array(resource, np.int8),
        opcode=np.zeros(n, np.int8),
        cycles=np.where(moving, 0, cycles).astype(np.int64),
        flops=np.zeros(n, np.int64),
        sbuf_read_bytes=np.zeros(n, np.int64),
        sbuf_write_bytes=np.zeros(n, np.int64),
        region=np.zeros(n, np.int32),
        transfer=transfer.astype(np.int32),
        inc_semaphore=np.array([2 * q + r if r >= 0 else -1 for q, r in zip(resource, raises, strict=True)], np.int32),
        wait_first=np.cumsum([0, *(len(row) for row in waits)]).astype(np.int32),
        wait_semaphore=np.array([s for s, _ in flat], np.int32),
        wait_lag=np.array([lag for _, lag in flat], np.int32),
        wait_reason=np.full(len(flat), DATA, np.int8),
        semaphore_resource=np.repeat(np.arange(N_RESOURCES), 2).astype(np.int8),
        semaphore_history=np.full(2 * N_RESOURCES, 8, np.int32),
        loop_first=loop_array[:, 0].astype(np.int32),
        loop_length=loop_array[:, 1].astype(np.int32),
        loop_count=loop_array[:, 2],
        block_first=block_array[:, 0].astype(np.int32),
        block_length=block_array[:, 1].astype(np.int32),
        block_count=block_array[:, 2],
        transfers=Transfers(
            bytes=moved,
            billed_bytes=moved,
            descriptors=np.maximum(1, moved // 512),
            run_bytes=np.full(len(moved), 512, np.int64),
            source=np.full(len(moved), HBM, np.int8),
            dest=np.full(len(moved), SBUF, np.int8),
            variable=np.zeros(len(moved), np.int32),
        ),
        labels=("p",),
        variables=("x",),
        sbuf_peak_bytes=0,
        psum_peak_bytes=0,
    )


@SLOW
@given(programs(max_rows=12, max_loop=3, max_block=2))
def test_sweep_equals_the_event_simulation(core: CoreProgram) -> None:
    oracle = HeapCore(core, MACHINE)
    finish = oracle.run()
    plan = scheduled(core)
    record = plan.record
    assert plan.end_ps == finish
    assert record.row.tolist() == oracle.steps
    assert record.end_ps.tolist() == [oracle.end[i] for i in range(len(oracle.steps))]
    assert record.start_ps.tolist() == [oracle.start[i] for i in range(len(oracle.steps))]
    assert record.truncated == 0


@SLOW
@given(programs(max_rows=8, max_loop=400, max_block=90))
def test_extrapolation_is_exact(core: CoreProgram) -> None:
    full, quick = scheduled(core, extrapolate=False), scheduled(core)
    assert quick.is_exact
    assert quick.end_ps == full.end_ps
    assert quick.busy_ps.tolist() == full.busy_ps.tolist()
    assert quick.stall_ps.tolist() == full.stall_ps.tolist()


@SLOW
@given(programs(max_rows=10, max_loop=20, max_block=3))
def test_never_faster_than_any_resource_and_busy_adds_up(core: CoreProgram) -> None:
    plan = scheduled(core)
    expected = np.zeros(N_RESOURCES, np.int64)
    np.add.at(expected, core.resource, MACHINE.occupation_ps(core) * core.row_counts)
    assert plan.engine_busy_ps.tolist() == expected[:N_ENGINES].tolist()
    assert plan.end_ps >= plan.engine_busy_ps.max()
    assert plan.end_ps >= plan.dma_busy_ps, "all rings share the DMA engines"
    assert (plan.stall_ps >= 0).all()


@SLOW
@given(programs(max_rows=10, max_loop=20, max_block=3), st.integers(1, 4))
def test_faster_engines_never_slow_a_program_without_transfers(core: CoreProgram, factor: int) -> None:
    still = replace(core, resource=np.minimum(core.resource, N_ENGINES - 1), transfer=np.full_like(core.transfer, -1))
    faster = replace(MACHINE, clock_khz=tuple(khz * factor for khz in MACHINE.clock_khz))
    assert scheduled(still, faster).end_ps <= scheduled(still).end_ps


@SLOW
@given(programs(max_rows=10, max_loop=20, max_block=3, transfers=False), st.data())
def test_removing_a_dependency_never_slows(core: CoreProgram, data: st.DataObject) -> None:
    if not len(core.wait_semaphore):
        return
    gone = data.draw(st.integers(0, len(core.wait_semaphore) - 1))
    lag = core.wait_lag.copy()
    lag[gone] = 2**30  # never reached: no wait
    assert scheduled(replace(core, wait_lag=lag)).end_ps <= scheduled(core).end_ps


@SLOW
@given(programs(max_rows=12, max_loop=5, max_block=2))
def test_rows_of_an_engine_do_not_overlap_and_waits_are_explained(core: CoreProgram) -> None:
    record = scheduled(core).record
    resource = core.resource[record.row]
    for q in range(N_ENGINES):
        own = np.flatnonzero(resource == q)
        assert (record.start_ps[own][1:] >= record.end_ps[own][:-1]).all()
    position = np.arange(len(record.row))
    assert (record.critical < position).all()
    assert (record.wait_ps >= 0).all()


def test_a_billion_iterations_in_closed_form() -> None:
    def looped(count: int) -> CoreProgram:
        builder = CoreBuilder()
        builder.loop(count)
        builder.compute(VECTOR, "TENSOR_SCALAR", 960)
        builder.end_loop()
        return builder.build()

    each = 1_000_000 + MACHINE.issue_ps[VECTOR]  # 960 cycles at 0.96 GHz are 1 us
    plan = scheduled(looped(10**9))
    assert plan.is_exact
    assert plan.end_ps == 10**9 * each + MACHINE.latency_ps[VECTOR]
    assert plan.busy_ps[VECTOR] == 10**9 * each


def test_double_buffering_overlaps_and_a_single_slot_does_not() -> None:
    def looped(depth: int) -> CoreProgram:
        builder = CoreBuilder()
        tile = builder.buffer(1 << 20, depth)
        builder.loop(20)  # stays below the traffic at which the DMA rate changes
        builder.load(1 << 20, tile, run_bytes=8192, variable="x")
        builder.compute(VECTOR, "TENSOR_SCALAR", 2880, reads=[tile])
        builder.end_loop()
        return builder.build()

    machine = machine_of(Target())
    transfer, _ = machine.transfer_work_ps(looped(1))
    engine = 3_000_000 + machine.issue_ps[VECTOR]
    waits = machine.dma_latency_ps + machine.latency_ps[VECTOR] + 2 * machine.hop_ps
    alone = scheduled(looped(1), machine)
    assert alone.end_ps == 20 * (int(transfer[0]) + engine + waits) - machine.hop_ps
    assert scheduled(looped(4), machine).end_ps < 1.1 * 20 * max(int(transfer[0]), engine)


def test_numbers_that_the_kernel_and_its_callers_share() -> None:
    kernel = (schedule_kernel.STEP, schedule_kernel.END, schedule_kernel.ESTIMATED)
    assert kernel == (schedule_module._STEPS, schedule_module._END, schedule_module._ESTIMATED)
    assert schedule_kernel.N_ENGINES == N_ENGINES
    reasons = (schedule_kernel.ISSUE, schedule_kernel.RING, schedule_kernel.BANDWIDTH)
    assert reasons == (isa.ISSUE, isa.RING, isa.BANDWIDTH)
    assert 1 + len(STALL_REASONS) == schedule_kernel.N_TOTALS
