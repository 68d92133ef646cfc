"""Device tables of a program in relative time, with the columns of `schema.tables`.

Times are nanoseconds from the start of the execution, preamble included: starts are rounded down and ends up, so that
an interval is never shorter than in the schedule. Long programs keep the first rows of each physical core
(`core.schedule.MAX_RECORDED_ROWS`); `truncated_rows` says how many were left out.
"""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trnscope.core.isa import N_ENGINES, OPCODES, RING_NAMES, RING_TYPES, SPACES
from trnscope.core.program import Program
from trnscope.core.schedule import CoreSchedule, Schedule
from trnscope.schema.tables import TABLES
from trnscope.schema.vocabulary import ENGINES, STALL_REASONS

Ints = npt.NDArray[np.int64]


class Timed(Protocol):
    """What tables are made of: a program and its schedule (`kernels.Modelled` is one)."""

    @property
    def program(self) -> Program: ...
    @property
    def schedule(self) -> Schedule: ...


def program_tables(program_id: int, modelled: Timed) -> dict[str, pa.Table]:
    """`ProgramInstruction`, `ProgramDmaPacketAggregated` and `ProgramActiveTime` of one program.

    Row ids count instructions and transfers of all physical cores in program order; `critical_id` refers to them.
    """
    plan = modelled.schedule
    instructions: list[dict[str, Any]] = []
    transfers: list[dict[str, Any]] = []
    active: list[dict[str, Any]] = []
    first_id = 0
    for pcore, core in enumerate(plan.cores):
        instructions.append(_instructions(core, plan.preamble_ps, pcore, first_id))
        transfers.append(_transfers(core, plan.preamble_ps, pcore, first_id))
        active.append(_active(core, plan.preamble_ps, pcore))
        first_id += len(core.record.row)
    return {
        name: _table(name, program_id, parts)
        for name, parts in (
            ("ProgramInstruction", instructions),
            ("ProgramDmaPacketAggregated", transfers),
            ("ProgramActiveTime", active),
        )
    }


def truncated_rows(modelled: Timed) -> int:
    """Executed rows that are too many for the tables, over all physical cores."""
    return sum(core.record.truncated for core in modelled.schedule.cores)


def _table(name: str, program_id: int, parts: list[dict[str, Any]]) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for column in TABLES[name].columns:
        kind = _ARROW[column.type]
        if column.name == "program_id":
            rows = sum(len(part["start_ts"]) for part in parts)
            columns[column.name] = pa.array(np.full(rows, program_id, np.int64), kind)
        else:
            columns[column.name] = pa.concat_arrays([pa.array(part[column.name], kind) for part in parts])
    return pa.table(columns)


_ARROW = {"int64": pa.int64(), "int32": pa.int32(), "float64": pa.float64(), "string": pa.string()}


def _times(start_ps: Ints, end_ps: Ints, preamble_ps: int) -> dict[str, Ints]:
    start = (start_ps + preamble_ps) // 1000
    end = -(-(end_ps + preamble_ps) // 1000)
    return {"start_ts": start, "end_ts": end, "duration_ns": end - start}


def _pick(names: tuple[str, ...], index: Ints) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(index)) if len(names) else pa.nulls(len(index), pa.string())


def _instructions(core: CoreSchedule, preamble_ps: int, pcore: int, first_id: int) -> dict[str, Any]:
    program, record = core.program, core.record
    chosen = np.flatnonzero(program.resource[record.row] < N_ENGINES)
    row = record.row[chosen]
    engine = program.resource[row].astype(np.int64)
    pc = np.zeros(len(row), np.int64)
    for index in range(N_ENGINES):
        own = engine == index
        pc[own] = np.arange(int(own.sum()))
    wait = record.wait_ps[chosen]
    waited = wait > 0
    critical = record.critical[chosen]
    cycles = program.cycles[row].astype(str)
    return {
        **_times(record.start_ps[chosen], record.end_ps[chosen], preamble_ps),
        "engine": _pick(ENGINES, engine),
        "pcore_idx": np.full(len(row), pcore, np.int64),
        "opcode": _pick(OPCODES, program.opcode[row].astype(np.int64)),
        "operands": np.char.add(cycles, " cycles") if len(row) else np.zeros(0, "<U1"),
        "id": chosen + first_id,
        "pc": pc,
        "bir_id": np.full(len(row), "", "<U1"),
        "hlo_name": _pick(program.labels, program.region[row].astype(np.int64)),
        "evt_wait_time_ns": wait // 1000,
        "stall_reason": pa.array(
            _pick(STALL_REASONS, record.reason[chosen].astype(np.int64)).to_numpy(zero_copy_only=False), mask=~waited
        ),
        "critical_id": pa.array(critical + first_id, mask=critical < 0),
        "raw_flops": program.flops[row],
        "sbuf_read_bytes": program.sbuf_read_bytes[row],
        "sbuf_write_bytes": program.sbuf_write_bytes[row],
    }


def _transfers(core: CoreSchedule, preamble_ps: int, pcore: int, first_id: int) -> dict[str, Any]:
    program, record = core.program, core.record
    chosen = np.flatnonzero(program.transfer[record.row] >= 0)
    row = record.row[chosen]
    index = program.transfer[row]
    moved = program.transfers
    size = moved.bytes[index]
    ring = program.resource[row].astype(np.int64) - N_ENGINES
    times = _times(record.start_ps[chosen], record.end_ps[chosen], preamble_ps)
    semaphore = program.inc_semaphore[row]
    return {
        **times,
        "id": chosen + first_id,
        "pcore_idx": np.full(len(row), pcore, np.int64),
        "block_id": index,
        "queue_idx": ring,
        "queue_name": _pick(RING_NAMES, ring),
        "queue_type": _pick(RING_TYPES, ring),
        "op": _pick(program.labels, program.region[row].astype(np.int64)),
        "variable": _pick(program.variables, moved.variable[index].astype(np.int64)),
        "read_bytes": size,
        "write_bytes": size,
        "transfer_bytes": size,
        "throughput": size * 1e9 / np.maximum(times["duration_ns"], 1),
        "source": _pick(SPACES, moved.source[index].astype(np.int64)),
        "dest": _pick(SPACES, moved.dest[index].astype(np.int64)),
        "semaphore_id": np.where(semaphore >= 0, semaphore.astype(str), ""),
        "descriptors": moved.descriptors[index],
        "run_bytes": moved.run_bytes[index],
    }


def _active(core: CoreSchedule, preamble_ps: int, pcore: int) -> dict[str, Any]:
    """Merged busy intervals of each engine and of all DMA rings together."""
    program, record = core.program, core.record
    resource = program.resource[record.row]
    starts: list[Ints] = []
    ends: list[Ints] = []
    names: list[str] = []
    for name, own in (
        *((engine, resource == index) for index, engine in enumerate(ENGINES)),
        ("dma", resource >= N_ENGINES),
    ):
        start, end = merge(record.start_ps[own], record.end_ps[own])
        starts.append(start)
        ends.append(end)
        names += [name] * len(start)
    times = _times(np.concatenate(starts), np.concatenate(ends), preamble_ps)
    return {**times, "engine": names, "pcore_idx": np.full(len(names), pcore, np.int64)}


def merge(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Union of intervals, empty ones dropped: sorted starts and ends."""
    kept = end > start
    order = np.argsort(start[kept], kind="stable")
    start, end = start[kept][order], end[kept][order]
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    fresh = np.ones(len(start), bool)
    fresh[1:] = start[1:] > reach[:-1]
    heads = np.flatnonzero(fresh)
    tails = np.append(heads[1:], len(start)) - 1
    return start[heads], reach[tails]
