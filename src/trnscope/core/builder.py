"""Building the program of one physical core: loops of loads, engine passes and stores over rotating buffers.

A lowering says which buffer each row reads and writes; the builder derives the semaphores: a row waits for the last
writers of what it reads (reason `data`), a row that writes a buffer waits for its readers `depth` uses ago (reason
`buffer`). Waits for several rows of one engine or ring collapse to the last of them, since each completes in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from trnscope.core.isa import (
    BUFFER,
    DATA,
    HBM,
    OPCODE_ID,
    PSUM,
    RING_CONST,
    RING_IN,
    RING_OUT,
    SBUF,
)
from trnscope.core.program import CoreProgram, Transfers

MOST_REPEATS = 65536
"""Back-to-back instructions that are rows of their own: eight million elements of a contraction."""

Width = TypeVar("Width", np.int8, np.int32, np.int64)


@dataclass(slots=True, eq=False)
class Buffer:
    """A place in SBUF or PSUM of `bytes` per slot (all partitions), with `depth` slots in rotation."""

    space: int
    bytes: int
    depth: int
    writers: dict[int, int] = field(default_factory=dict)
    """resource -> its last row that wrote"""
    readers: dict[int, int] = field(default_factory=dict)
    """resource -> its last row that read"""
    first_writers: list[int] = field(default_factory=list)
    """rows that start to fill a slot"""


@dataclass(slots=True)
class _Row:
    resource: int
    opcode: int
    cycles: int
    flops: int
    sbuf_read: int
    sbuf_write: int
    region: int
    repeat: int
    transfer: int
    loop: int
    waits: list[tuple[int, int, int]] = field(default_factory=list)
    """(row to wait for, lag, reason); rows become semaphores at the end"""


class CoreBuilder:
    """Collects rows, loops and blocks; `build()` turns them into arrays.

    Rows are added inside `loop()` ... `end_loop()`; loops that repeat together inside `block()` ... `end_block()`.
    """

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._loops: list[tuple[int, int, int]] = []  # first row, length, count
        self._blocks: list[tuple[int, int, int]] = []
        self._transfers: list[tuple[int, int, int, int, int, int, int]] = []
        self._labels: dict[str, int] = {}
        self._variables: dict[str, int] = {}
        self._buffers: list[Buffer] = []
        self._stage_buffers: list[Buffer] = []
        self._kept_buffers: list[Buffer] = []
        self._sbuf_peak = 0
        self._psum_peak = 0
        self._region = 0
        self._open_loop: tuple[int, int] | None = None
        self._open_block: tuple[int, int] | None = None

    def region(self, label: str) -> None:
        """Rows added from now on belong to the op or graph node `label`."""
        self._region = self._labels.setdefault(label, len(self._labels))

    def buffer(self, size_bytes: int, depth: int = 2, psum: bool = False, keep: bool = False) -> Buffer:
        """A new buffer of `depth` slots. `keep`: it outlives the stage (weights, intermediate tensors)."""
        made = Buffer(PSUM if psum else SBUF, size_bytes, depth)
        self._buffers.append(made)
        (self._kept_buffers if keep else self._stage_buffers).append(made)
        self._measure()
        return made

    def end_stage(self) -> None:
        """Buffers that are not kept are free from here on."""
        self._stage_buffers.clear()

    def _measure(self) -> None:
        used = [0, 0, 0]
        for held in (*self._stage_buffers, *self._kept_buffers):
            used[held.space] += held.bytes * held.depth
        self._sbuf_peak = max(self._sbuf_peak, used[SBUF])
        self._psum_peak = max(self._psum_peak, used[PSUM])

    def block(self, count: int) -> None:
        self._open_block = (len(self._loops), count)

    def end_block(self) -> None:
        assert self._open_block is not None
        first, count = self._open_block
        if count > 0 and len(self._loops) > first:
            self._blocks.append((first, len(self._loops) - first, count))
        self._open_block = None

    def loop(self, count: int = 1) -> None:
        self._open_loop = (len(self._rows), count)

    def end_loop(self) -> None:
        assert self._open_loop is not None
        first, count = self._open_loop
        self._open_loop = None
        if len(self._rows) == first:
            return
        self._loops.append((first, len(self._rows) - first, count))
        if self._open_block is None:
            self._blocks.append((len(self._loops) - 1, 1, 1))

    def load(
        self,
        size_bytes: int,
        into: Buffer,
        *,
        run_bytes: int,
        variable: str,
        billed_bytes: int | None = None,
        const: bool = False,
        descriptors: int | None = None,
        fill: bool = True,
    ) -> None:
        """HBM to SBUF.

        `const`: read once and kept, on a ring of its own. `fill` = False: goes on filling a slot that an earlier load
        of this iteration began.
        """
        transfer = self._transfer(size_bytes, billed_bytes, run_bytes, descriptors, HBM, SBUF, variable)
        row = self._add(RING_CONST if const else RING_IN, "DMA", 0, 1, transfer=transfer)
        self._writes(row, into, not fill)

    def store(
        self,
        size_bytes: int,
        source: Buffer,
        *,
        run_bytes: int,
        variable: str,
        billed_bytes: int | None = None,
        descriptors: int | None = None,
    ) -> None:
        """SBUF to HBM."""
        transfer = self._transfer(size_bytes, billed_bytes, run_bytes, descriptors, SBUF, HBM, variable)
        row = self._add(RING_OUT, "DMA", 0, 1, transfer=transfer)
        self._reads(row, source)

    def compute(
        self,
        engine: int,
        opcode: str,
        cycles: int,
        *,
        reads: Sequence[Buffer] = (),
        writes: Sequence[Buffer] = (),
        repeat: int = 1,
        flops: int = 0,
        sbuf_read: int = 0,
        sbuf_write: int = 0,
        serial: bool = False,
        accumulate: bool = False,
    ) -> None:
        """`repeat` back-to-back instructions of `cycles` each; flops and bytes are per instruction.

        The first of them waits for what is read, the last one announces the result. `serial`: it also waits for its
        own previous run to be complete (no overlap within the engine). `accumulate`: what it writes goes on filling a
        slot that an earlier row of this iteration began. Beyond `MOST_REPEATS` several instructions count as one.
        """
        joined = -(-repeat // MOST_REPEATS)
        if joined > 1:
            repeat, rest = divmod(repeat, joined)
            if rest:
                self._add(engine, opcode, cycles * rest, 1, flops * rest, sbuf_read * rest, sbuf_write * rest)
            cycles, flops = cycles * joined, flops * joined
            sbuf_read, sbuf_write = sbuf_read * joined, sbuf_write * joined
        row = self._add(engine, opcode, cycles, repeat, flops, sbuf_read, sbuf_write)
        for buffer in reads:
            self._reads(row, buffer)
        for buffer in writes:
            self._writes(row, buffer, accumulate)
        if serial:
            self._rows[row].waits.append((row, 0, DATA))

    def _add(
        self,
        resource: int,
        opcode: str,
        cycles: int,
        repeat: int,
        flops: int = 0,
        sbuf_read: int = 0,
        sbuf_write: int = 0,
        transfer: int = -1,
    ) -> int:
        assert self._open_loop is not None
        self._rows.append(
            _Row(
                resource,
                OPCODE_ID[opcode],
                int(cycles),
                int(flops),
                int(sbuf_read),
                int(sbuf_write),
                self._region,
                max(1, int(repeat)),
                transfer,
                len(self._loops),
            )
        )
        return len(self._rows) - 1

    def _transfer(
        self,
        size_bytes: int,
        billed_bytes: int | None,
        run_bytes: int,
        descriptors: int | None,
        source: int,
        dest: int,
        variable: str,
    ) -> int:
        run = max(1, min(run_bytes, size_bytes))
        runs = descriptors if descriptors is not None else -(-size_bytes // run)
        name = self._variables.setdefault(variable, len(self._variables))
        billed = size_bytes if billed_bytes is None else max(size_bytes, billed_bytes)
        self._transfers.append((int(size_bytes), int(billed), int(runs), int(run), source, dest, name))
        return len(self._transfers) - 1

    def _reads(self, row: int, buffer: Buffer) -> None:
        for writer in buffer.writers.values():
            self._rows[row].waits.append((writer, 0, DATA))
        buffer.readers[self._rows[row].resource] = row

    def _writes(self, row: int, buffer: Buffer, accumulate: bool = False) -> None:
        if not accumulate:
            self._refill(row, buffer)
        buffer.writers[self._rows[row].resource] = row

    def _refill(self, row: int, buffer: Buffer) -> None:
        loop = self._rows[row].loop
        old = [reader for reader in buffer.readers.values() if self._rows[reader].loop != loop]
        if old and self._open_block is None:
            # The buffer goes on rotating in a later loop (a last, partial tile): close the earlier one's account.
            self._close_rotation(buffer)
            self._rows[row].waits.extend((reader, buffer.depth - 1, BUFFER) for reader in old)
            buffer.writers.clear()
        buffer.first_writers.append(row)

    def _close_rotation(self, buffer: Buffer) -> None:
        """A slot is refilled when its readers of `depth` fillings ago are done."""
        for writer in buffer.first_writers:
            loop = self._rows[writer].loop
            for reader in buffer.readers.values():
                other = self._rows[reader].loop
                # A reader in another loop runs its whole loop per filling.
                per_filling = 1 if other == loop else self._loops[other][2]
                self._rows[writer].waits.append((reader, (buffer.depth - 1) * per_filling, BUFFER))
        buffer.first_writers.clear()
        buffer.readers.clear()

    def build(self) -> CoreProgram:
        """The finished program."""
        assert self._open_loop is None
        assert self._open_block is None
        for buffer in self._buffers:
            self._close_rotation(buffer)
        rows = self._rows
        semaphore: dict[int, int] = {}
        waits: list[list[tuple[int, int, int]]] = []
        for row in rows:
            best: dict[tuple[int, int], tuple[int, int, int]] = {}
            for producer, lag, reason in row.waits:
                key = (rows[producer].resource, lag)
                # Engines and rings complete in order: only the last of several producers matters.
                if key not in best or producer > best[key][0]:
                    best[key] = (producer, lag, reason)
            merged = list(best.values())
            for producer, _, _ in merged:
                semaphore.setdefault(producer, len(semaphore))
            waits.append(merged)
        repeat = np.array([row.repeat for row in rows], np.int64)
        ends = np.cumsum(repeat)
        total = int(ends[-1]) if len(rows) else 0
        firsts = ends - repeat

        def column(values: list[int], dtype: type[Width]) -> npt.NDArray[Width]:
            return np.repeat(np.array(values, dtype), repeat)

        inc = np.full(total, -1, np.int32)
        for producer, index in semaphore.items():
            inc[ends[producer] - 1] = index
        per_row = np.zeros(total, np.int32)
        per_row[firsts] = [len(w) for w in waits]
        wait_first = np.zeros(total + 1, np.int32)
        np.cumsum(per_row, out=wait_first[1:])
        flat = [(semaphore[producer], lag, reason) for merged in waits for producer, lag, reason in merged]
        deepest = [0] * len(semaphore)
        for index, lag, _ in flat:
            deepest[index] = max(deepest[index], lag)
        flat_array = np.array(flat, np.int64).reshape(-1, 3)
        transfers = np.array(self._transfers, np.int64).reshape(-1, 7)
        loops = np.array(
            [(firsts[first], ends[first + length - 1] - firsts[first], count) for first, length, count in self._loops],
            np.int64,
        ).reshape(-1, 3)
        blocks = np.array(self._blocks, np.int64).reshape(-1, 3)
        return CoreProgram(
            resource=column([r.resource for r in rows], np.int8),
            opcode=column([r.opcode for r in rows], np.int8),
            cycles=column([r.cycles for r in rows], np.int64),
            flops=column([r.flops for r in rows], np.int64),
            sbuf_read_bytes=column([r.sbuf_read for r in rows], np.int64),
            sbuf_write_bytes=column([r.sbuf_write for r in rows], np.int64),
            region=column([r.region for r in rows], np.int32),
            transfer=column([r.transfer for r in rows], np.int32),
            inc_semaphore=inc,
            wait_first=wait_first,
            wait_semaphore=flat_array[:, 0].astype(np.int32),
            wait_lag=flat_array[:, 1].astype(np.int32),
            wait_reason=flat_array[:, 2].astype(np.int8),
            semaphore_resource=np.array([rows[p].resource for p in semaphore], np.int8),
            semaphore_history=np.array([1 << int(d + 1).bit_length() for d in deepest], np.int32),
            loop_first=loops[:, 0].astype(np.int32),
            loop_length=loops[:, 1].astype(np.int32),
            loop_count=loops[:, 2].copy(),
            block_first=blocks[:, 0].astype(np.int32),
            block_length=blocks[:, 1].astype(np.int32),
            block_count=blocks[:, 2].copy(),
            transfers=Transfers(
                bytes=transfers[:, 0].copy(),
                billed_bytes=transfers[:, 1].copy(),
                descriptors=transfers[:, 2].copy(),
                run_bytes=transfers[:, 3].copy(),
                source=transfers[:, 4].astype(np.int8),
                dest=transfers[:, 5].astype(np.int8),
                variable=transfers[:, 6].astype(np.int32),
            ),
            labels=tuple(self._labels) or ("",),
            variables=tuple(self._variables),
            sbuf_peak_bytes=self._sbuf_peak,
            psum_peak_bytes=self._psum_peak,
        )
