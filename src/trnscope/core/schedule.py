"""Schedules: when each instruction and transfer of a program starts and ends, why it waited, and for what."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

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
    """

    program: CoreProgram
    machine: Machine
    end_ps: int
    busy_ps: Int64
    stall_ps: Int64

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
            end, busy, stall, _, _ = _sweep(core, machine, extrapolate=extrapolate, record=None)
            done[id(core)] = CoreSchedule(core, machine, int(end), busy, stall)
    # The fixed parts of all launches are shown before the first and after the last instruction.
    return Schedule(
        tuple(done[id(core)] for core in program.cores),
        machine.preamble_ps * program.launches,
        machine.epilogue_ps * program.launches,
    )


def _record(core: CoreProgram, machine: Machine) -> Record:
    rows = min(core.rows_executed, MAX_RECORDED_ROWS)
    columns = (
        np.zeros(rows, np.int32),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int8),
        np.zeros(rows, np.int64),
    )
    _, _, _, recorded, steps = _sweep(core, machine, extrapolate=True, record=columns)
    row, start, end, wait, reason, critical = columns
    return Record(row.astype(np.int64), start, end, wait, reason, critical, int(steps - recorded))


@cache
def _kernel() -> Callable[..., Any]:
    """numba takes most of a second to import: only a process that schedules pays for it."""
    from trnscope.core.schedule_kernel import sweep

    return cast("Callable[..., Any]", sweep)


_NO_RECORD = (
    np.zeros(0, np.int32),
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    np.zeros(0, np.int8),
    np.zeros(0, np.int64),
)


def _sweep(
    core: CoreProgram, machine: Machine, *, extrapolate: bool, record: tuple[npt.NDArray[Any], ...] | None
) -> tuple[int, Int64, Int64, int, int]:
    size = np.zeros(len(core.resource), np.int64)
    moving = core.transfer >= 0
    size[moving] = core.transfers.bytes[core.transfer[moving]]
    waiting = np.repeat(core.resource, np.diff(core.wait_first))
    hop = np.where(core.semaphore_resource[core.wait_semaphore] != waiting, machine.hop_ps, 0).astype(np.int64)
    offset = np.zeros(len(core.semaphore_history), np.int64)
    np.cumsum(core.semaphore_history[:-1], out=offset[1:])
    result: tuple[int, Int64, Int64, int, int] = _kernel()(
        core.resource,
        machine.occupation_ps(core),
        machine.latencies_ps(core),
        machine.transfer_work_ps(core, large=False),
        machine.transfer_work_ps(core, large=True),
        size,
        core.inc_semaphore,
        core.wait_first,
        core.wait_semaphore,
        core.wait_lag,
        core.wait_reason,
        hop,
        offset,
        (core.semaphore_history - 1).astype(np.int64),
        core.loop_first,
        core.loop_length,
        core.loop_count,
        core.block_first,
        core.block_length,
        core.block_count,
        machine.dma_threshold_bytes,
        N_RESOURCES,
        int(core.semaphore_history.sum()),
        extrapolate,
        record is not None,
        *(record if record is not None else _NO_RECORD),
    )
    return result
