"""Schedules: when each instruction and transfer of a program starts and ends, why it waited, and for what."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, cast

import numpy as np

from trnscope.core.isa import N_ENGINES, N_RESOURCES
from trnscope.core.machine import Machine
from trnscope.core.program import CoreProgram, Int8, Int64, Program

MAX_RECORDED_ROWS = 200_000
"""Rows of one physical core that a recorded schedule keeps; the time of longer programs is still exact."""


@dataclass(frozen=True, slots=True)
class Record:
    """Per executed row, in program order, relative to the first instruction.

    Attributes:
        row: row of the core's program.
        start_ps, end_ps: occupation of the engine, or first to last moment of a transfer.
        wait_ps: between the engine or ring being free and the start.
        reason: index into `vocabulary.STALL_REASONS`.
        critical: position (in this record) of what it waited for last; -1 for nothing.
        truncated: rows executed beyond `MAX_RECORDED_ROWS`, not recorded.
    """

    row: Int64
    start_ps: Int64
    end_ps: Int64
    wait_ps: Int64
    reason: Int8
    critical: Int64
    truncated: int


@dataclass(frozen=True)
class CoreSchedule:
    """Times of one physical core.

    Attributes:
        end_ps: last result, relative to the first instruction.
        busy_ps: per engine and ring (`isa`); the DMA engines' own time for rings.
        stall_ps: per engine and ring, and per stall reason.
        is_exact: False for a program so long, and without a period, that its loop was extrapolated linearly.
    """

    program: CoreProgram
    machine: Machine
    end_ps: int
    busy_ps: Int64
    stall_ps: Int64
    is_exact: bool

    @property
    def dma_busy_ps(self) -> int:
        """Time that the DMA engines are busy: all rings together."""
        return int(self.busy_ps[N_ENGINES:].sum())

    @property
    def engine_busy_ps(self) -> Int64:
        return self.busy_ps[:N_ENGINES]

    @cached_property
    def record(self) -> Record:
        """The executed rows; scheduled again at first use, since most schedules are only asked for their end."""
        return _record(self.program, self.machine)


@dataclass(frozen=True)
class Schedule:
    """Times of a program on its physical cores.

    Attributes:
        cores: one per physical core; equal shares are one object.
        preamble_ps, epilogue_ps: of the execution, before the first and after the last instruction.
    """

    cores: tuple[CoreSchedule, ...]
    preamble_ps: int
    epilogue_ps: int

    @property
    def total_ps(self) -> int:
        return self.preamble_ps + max(core.end_ps for core in self.cores) + self.epilogue_ps


def schedule(program: Program, machine: Machine, *, extrapolate: bool = True) -> Schedule:
    """Schedule a program; `extrapolate` = False sweeps every iteration (the result is the same)."""
    done: dict[int, CoreSchedule] = {}
    for core in program.cores:
        if id(core) not in done:
            scalars, totals = _sweep(core, machine, extrapolate=extrapolate, record=np.zeros((0, 6), np.int64))
            done[id(core)] = CoreSchedule(
                core, machine, int(scalars[_END]), totals[:, 0], totals[:, 1:], not scalars[_ESTIMATED]
            )
    # The fixed parts of all launches are shown before the first and after the last instruction.
    return Schedule(
        tuple(done[id(core)] for core in program.cores),
        machine.preamble_ps * program.launches,
        machine.epilogue_ps * program.launches,
    )


def _record(core: CoreProgram, machine: Machine) -> Record:
    table = np.zeros((min(core.rows_executed, MAX_RECORDED_ROWS), 6), np.int64)
    scalars, _ = _sweep(core, machine, extrapolate=True, record=table)
    row, start, end, wait, reason, critical = (np.ascontiguousarray(column) for column in table.T)
    return Record(row, start, end, wait, reason.astype(np.int8), critical, int(scalars[_STEPS]) - len(table))


_STEPS = 3
_END = 4
_ESTIMATED = 7
"""Positions in what the kernel returns (`schedule_kernel.STEP`, `END`, `ESTIMATED`), known without importing numba."""


@cache
def _kernel() -> Callable[..., Any]:
    """numba takes most of a second to import: only a process that schedules pays for it."""
    from trnscope.core.schedule_kernel import sweep

    return cast("Callable[..., Any]", sweep)


def _sweep(core: CoreProgram, machine: Machine, *, extrapolate: bool, record: Int64) -> tuple[Int64, Int64]:
    n = len(core.resource)
    rows = np.zeros((n + 1, 8), np.int64)
    moving = np.flatnonzero(core.transfer >= 0)
    rows[:n, 0] = core.resource
    rows[:n, 1] = machine.occupation_ps(core)
    rows[:n, 2] = machine.latencies_ps(core)
    rows[moving, 3], rows[moving, 4] = machine.transfer_work_ps(core)
    rows[moving, 5] = core.transfers.bytes[core.transfer[moving]]
    rows[:n, 6] = core.inc_semaphore
    rows[:, 7] = core.wait_first
    waits = np.zeros((len(core.wait_semaphore), 4), np.int64)
    waits[:, 0] = core.wait_semaphore
    waits[:, 1] = core.wait_lag
    waits[:, 2] = core.wait_reason
    waiting = np.repeat(core.resource, np.diff(core.wait_first))
    waits[:, 3] = np.where(core.semaphore_resource[core.wait_semaphore] != waiting, machine.hop_ps, 0)
    semaphores = np.zeros((len(core.semaphore_history), 3), np.int64)
    np.cumsum(core.semaphore_history[:-1], out=semaphores[1:, 0])
    semaphores[:, 1] = core.semaphore_history - 1
    result: tuple[Int64, Int64] = _kernel()(
        rows,
        waits,
        semaphores,
        np.stack([core.loop_first, core.loop_length, core.loop_count], axis=1).astype(np.int64),
        np.stack([core.block_first, core.block_length, core.block_count], axis=1).astype(np.int64),
        machine.dma_threshold_bytes,
        N_RESOURCES,
        int(core.semaphore_history.sum()),
        extrapolate,
        record,
    )
    return result
