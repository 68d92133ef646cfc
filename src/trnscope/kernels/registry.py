"""Which family lowers an op: the first one that says it handles it; `generic` otherwise."""

from typing import Protocol, cast

from trnscope.graph.spec import OpSpec
from trnscope.kernels import (
    attention,
    convolution,
    copy,
    generic,
    index,
    matmul,
    norm,
    pointwise,
    reduction,
    select,
    softmax,
    streams,
)
from trnscope.kernels.context import Context
from trnscope.kernels.stages import Lowering


class Family(Protocol):
    """A module of this package that lowers ops."""

    def handles(self, op: OpSpec) -> bool:
        """Whether this family lowers `op`."""
        ...

    def lower(self, op: OpSpec, context: Context) -> Lowering:
        """The lowering of an op that `handles` accepted."""
        ...


_MODULES = (
    matmul,
    attention,
    convolution,
    norm,
    softmax,
    index,
    select,
    streams,
    copy,
    reduction,
    pointwise,
)
FAMILIES: tuple[Family, ...] = tuple(cast("Family", module) for module in _MODULES)


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of `op`; a generic estimate where no family knows it."""
    for family in FAMILIES:
        if family.handles(op):
            try:
                return family.lower(op, context)
            except (ArithmeticError, LookupError, TypeError, ValueError):
                # Arguments that contradict each other (records of another tool, a variant of the op that this family
                # does not know): the generic estimate says so by its name and its confidence.
                break
    return generic.lower(op, context)


def has_kernel(op: OpSpec) -> bool:
    """Whether a family of its own lowers `op`."""
    return any(family.handles(op) for family in FAMILIES)
