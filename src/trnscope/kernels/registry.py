"""Which family lowers an op: the first one that says it handles it; `generic` otherwise."""

from typing import Protocol, cast

from trnscope.graph.spec import OpSpec
from trnscope.kernels import copy, generic, matmul, norm, pointwise, reduction, softmax
from trnscope.kernels.context import Context
from trnscope.kernels.stages import Lowering


class Family(Protocol):
    """A module of this package that lowers ops."""

    def handles(self, op: OpSpec) -> bool: ...

    def lower(self, op: OpSpec, context: Context) -> Lowering: ...


FAMILIES: tuple[Family, ...] = tuple(
    cast("Family", module) for module in (matmul, norm, softmax, copy, reduction, pointwise)
)


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of `op`; a generic estimate where no family knows it."""
    for family in FAMILIES:
        if family.handles(op):
            return family.lower(op, context)
    return generic.lower(op, context)


def has_kernel(op: OpSpec) -> bool:
    """Whether a family of its own lowers `op`."""
    return any(family.handles(op) for family in FAMILIES)
