"""How totals are dealt to cores and what a layout costs: small arithmetic that the emitters share."""

import math

from trnscope.core.builder import Buffer, CoreBuilder
from trnscope.kernels.stages import Operand


def share_of(total: int, core: int, n_cores: int) -> int:
    """Part of `total` of one core: the first ones take what does not divide."""
    return total // n_cores + (1 if core < total % n_cores else 0)


def billed_bytes(operand: Operand, size: int) -> int:
    """What the DMA engines are busy with for `size` bytes of an operand."""
    billed = size
    if operand.billed_bytes:
        billed = size * operand.billed_bytes // max(1, operand.bytes)
    return math.ceil(billed / operand.bandwidth_factor)


def resident_buffer(builder: CoreBuilder, residents: dict[int, Buffer], operand: Operand) -> Buffer:
    """The place of an intermediate tensor of a fused program.

    It stands for the dependency only: how much of the tensor stays in SBUF is not modelled yet.
    """
    if operand.index not in residents:
        residents[operand.index] = builder.buffer(0, 1, keep=True)
    return residents[operand.index]
