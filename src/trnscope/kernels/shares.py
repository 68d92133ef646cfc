"""How totals are dealt to cores and what a layout costs: small arithmetic that the emitters share."""

import math

from trnscope.core.builder import Buffer, CoreBuilder
from trnscope.core.machine import machine_of
from trnscope.kernels.context import Context
from trnscope.kernels.stages import Operand

MOST_AHEAD = 6
"""Slots beyond two of a streaming buffer."""


def share_of(total: int, core: int, n_cores: int) -> int:
    """Part of `total` of one core: the first ones take what does not divide."""
    return total // n_cores + (1 if core < total % n_cores else 0)


def billed_bytes(operand: Operand, size: int) -> int:
    """What the DMA engines are busy with for `size` bytes of an operand."""
    billed = size
    if operand.billed_bytes:
        billed = size * operand.billed_bytes // max(1, operand.bytes)
    return math.ceil(billed / operand.bandwidth_factor)


def slots(size: int, context: Context) -> int:
    """Slots of a streaming buffer of `size` bytes: one is filled or emptied while another is worked on, and as many
    more as pass by during the latency of a transfer."""
    machine = machine_of(context.target)
    in_flight = int(machine.dma_latency_ps * machine.dma_bytes_per_ns / 1000)
    return 2 + min(MOST_AHEAD, in_flight // max(1, size))


def resident_buffer(builder: CoreBuilder, residents: dict[int, Buffer], operand: Operand) -> Buffer:
    """The place of an intermediate tensor of a fused program.

    It stands for the dependency only: how much of the tensor stays in SBUF is not modelled yet.
    """
    if operand.index not in residents:
        residents[operand.index] = builder.buffer(0, 1, keep=True)
    return residents[operand.index]
