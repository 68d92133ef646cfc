"""Softmax along a row: maximum, exponential with the row's sum on the fly, reciprocal, scaling."""

import math

from trnscope.core.isa import VECTOR
from trnscope.graph.spec import OpSpec
from trnscope.kernels.context import Context, widest
from trnscope.kernels.pointwise import base
from trnscope.kernels.stages import Lowering, Pass, TiledStage

OPS = frozenset(
    {
        "softmax",
        "_softmax",
        "log_softmax",
        "_log_softmax",
        "_safe_softmax",
        "_softmax_backward_data",
        "_log_softmax_backward_data",
        "softmin",
    }
)


def handles(op: OpSpec) -> bool:
    """Whether this family lowers `op`."""
    return base(op) in OPS and bool(op.inputs)


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of an op that `handles` accepted."""
    tensor = op.inputs[0]
    dim = op.scalar("dim", -1)
    rank = len(tensor.shape)
    axis = int(dim) % rank if isinstance(dim, int) and rank and -rank <= dim < rank else max(0, rank - 1)
    width = max(1, tensor.shape[axis]) if rank else 1
    rows = max(1, tensor.numel // width)
    dtype = tensor.dtype
    if "backward" in op.name:
        pair = context.tensor_tensor((dtype, dtype))
        passes: tuple[Pass, ...] = (pair, context.reduce(dtype), context.tensor_scalar(dtype), pair)
        if "log" in op.name:
            passes = (context.activation(dtype), context.reduce(dtype), pair, pair)
    else:
        short = Pass(VECTOR, "RECIPROCAL", context.value("reciprocal_cycles"), 1.0 / width, share=1.0 / width)
        passes = (context.reduce(dtype), context.activation(dtype, 2.0), short, context.tensor_scalar(dtype))
    trailing = math.prod(tensor.shape[axis + 1 :]) if rank else 1
    stage = TiledStage(
        label=op.name,
        elements=tensor.numel,
        item_bytes=widest((*op.inputs, *op.outputs)),
        inputs=tuple(context.operand(i, t) for i, t in enumerate(op.inputs)),
        outputs=tuple(context.operand(i, t) for i, t in enumerate(op.outputs)),
        passes=passes,
        units=rows if trailing == 1 else tensor.numel,
    )
    return Lowering("softmax", "single-witness", (stage,))
