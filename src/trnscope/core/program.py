"""Programs: what the engines and DMA rings of a logical core execute, as arrays.

A `CoreProgram` holds the instruction streams of one physical core as rows in program order, which is topological: a
row waits only for rows before it. Loops are run-length: a `block` repeats consecutive `loops`, a loop repeats
consecutive rows. Each semaphore is raised by one engine or ring only, so that each of its values has one known
producer.

A wait is stored as (semaphore, lag): the row waits until the semaphore reaches the value it has in program order at
that point, minus `lag`. In a loop the same row therefore waits for the value of its own iteration, and a buffer of
rotation depth d is a wait of its writer for its readers with lag d - 1. Values <= 0 are no wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from trnscope.core.isa import HBM, N_ENGINES, TENSOR

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Transfers:
    """DMA transfers, one entry per row of a program that is one.

    Attributes:
        bytes: moved.
        billed_bytes: what the DMA engines are busy with: more than `bytes` where a layout costs bandwidth.
        descriptors: contiguous runs.
        run_bytes: bytes of one of them.
        source, dest: memory spaces (`isa.SPACES`).
        variable: index into `CoreProgram.variables`.
    """

    bytes: Int64
    billed_bytes: Int64
    descriptors: Int64
    run_bytes: Int64
    source: Int8
    dest: Int8
    variable: Int32


@dataclass(frozen=True)
class CoreProgram:
    """Instruction streams of one physical core. Arrays over rows unless said otherwise.

    Attributes:
        resource: engine (0..4) or ring (`isa.RING_*`).
        opcode: index into `isa.OPCODES`.
        cycles: documented cost in cycles of the engine; 0 for transfers.
        flops: floating point operations.
        sbuf_read_bytes, sbuf_write_bytes: moved between the engine and SBUF or PSUM.
        region: index into `labels`: the op or graph node the row belongs to.
        transfer: index into `transfers`, -1 for engine rows.
        inc_semaphore: raised by one at completion, -1 for none.
        wait_first: waits of row r are `wait_*[wait_first[r] : wait_first[r + 1]]`; length rows + 1.
        wait_semaphore, wait_lag, wait_reason: see the module's text; reasons are `isa.DATA` etc.
        semaphore_resource: what raises each semaphore.
        semaphore_history: how many past values of each semaphore are looked back at (a power of two).
        loop_first, loop_length, loop_count: rows [first, first + length) run `count` times.
        block_first, block_length, block_count: loops [first, first + length) run `count` times.
        sbuf_peak_bytes, psum_peak_bytes: most in use at one time, all partitions.
    """

    resource: Int8
    opcode: Int8
    cycles: Int64
    flops: Int64
    sbuf_read_bytes: Int64
    sbuf_write_bytes: Int64
    region: Int32
    transfer: Int32
    inc_semaphore: Int32
    wait_first: Int32
    wait_semaphore: Int32
    wait_lag: Int32
    wait_reason: Int8
    semaphore_resource: Int8
    semaphore_history: Int32
    loop_first: Int32
    loop_length: Int32
    loop_count: Int64
    block_first: Int32
    block_length: Int32
    block_count: Int64
    transfers: Transfers
    labels: tuple[str, ...]
    variables: tuple[str, ...]
    sbuf_peak_bytes: int
    psum_peak_bytes: int

    @cached_property
    def row_counts(self) -> Int64:
        """How often each row runs."""
        counts = np.zeros(len(self.resource), np.int64)
        for first, length, count in zip(self.block_first, self.block_length, self.block_count, strict=True):
            for loop in range(first, first + length):
                start = self.loop_first[loop]
                counts[start : start + self.loop_length[loop]] += count * self.loop_count[loop]
        return counts

    @cached_property
    def transfer_counts(self) -> Int64:
        """How often each transfer runs."""
        counts = np.zeros(len(self.transfers.bytes), np.int64)
        rows = self.transfer >= 0
        counts[self.transfer[rows]] = self.row_counts[rows]
        return counts

    @property
    def instructions(self) -> int:
        """Engine instructions executed."""
        return int(self.row_counts[self.resource < N_ENGINES].sum())

    @property
    def transfer_total(self) -> int:
        """Transfers executed."""
        return int(self.transfer_counts.sum())

    @property
    def flops_total(self) -> int:
        return int((self.flops * self.row_counts).sum())

    @property
    def tensor_flops(self) -> int:
        """The part of `flops_total` done by the TensorEngine."""
        on_tensor = self.resource == TENSOR
        return int((self.flops * self.row_counts)[on_tensor].sum())

    @property
    def hbm_read_bytes(self) -> int:
        return int((self.transfers.bytes * self.transfer_counts)[self.transfers.source == HBM].sum())

    @property
    def hbm_write_bytes(self) -> int:
        return int((self.transfers.bytes * self.transfer_counts)[self.transfers.dest == HBM].sum())

    @property
    def rows_executed(self) -> int:
        return int(self.row_counts.sum())

    def expand(self) -> Iterator[int]:
        """Row of each step in program order. For small programs: it is a Python loop."""
        for first, length, count in zip(self.block_first, self.block_length, self.block_count, strict=True):
            for _ in range(count):
                for loop in range(first, first + length):
                    start = int(self.loop_first[loop])
                    for _ in range(self.loop_count[loop]):
                        yield from range(start, start + int(self.loop_length[loop]))


@dataclass(frozen=True)
class Program:
    """What an op or a graph was lowered to, for one logical core.

    Attributes:
        name: op or graph name.
        kernel: family that lowered it.
        split: how it is split over the physical cores.
        cores: one per physical core; equal shares are one object.
        launches: device programs that follow each other; each has its preamble and epilogue.
    """

    name: str
    kernel: str
    split: str
    cores: tuple[CoreProgram, ...]
    launches: int = 1

    @property
    def instructions(self) -> int:
        return sum(core.instructions for core in self.cores)

    @property
    def transfers(self) -> int:
        return sum(core.transfer_total for core in self.cores)

    @property
    def flops(self) -> int:
        return sum(core.flops_total for core in self.cores)

    @property
    def hbm_read_bytes(self) -> int:
        return sum(core.hbm_read_bytes for core in self.cores)

    @property
    def hbm_write_bytes(self) -> int:
        return sum(core.hbm_write_bytes for core in self.cores)

    @property
    def sbuf_peak_bytes(self) -> int:
        return max(core.sbuf_peak_bytes for core in self.cores)

    @property
    def psum_peak_bytes(self) -> int:
        return max(core.psum_peak_bytes for core in self.cores)
