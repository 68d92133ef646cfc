"""Gathers and scatters: a descriptor per row, whose bytes decide the rate, and a price per row.

An indexed write leaves the rest of its destination as it was: the destination is copied as a whole first, by a
program of its own.
"""

import math

from trnscope.core.machine import machine_of
from trnscope.graph.spec import OpSpec, TensorSpec
from trnscope.kernels.context import INTEGER, Context, widest
from trnscope.kernels.pointwise import base
from trnscope.kernels.stages import Lowering, Operand, Stage, TiledStage

GATHERS = frozenset(
    {
        "index",
        "index_select",
        "gather",
        "embedding",
        "take",
        "take_along_dim",
        "embedding_renorm",
        "_embedding_bag",
        "embedding_bag",
        "_embedding_bag_forward_only",
        "masked_select",
        "nonzero",
        "_unsafe_index",
        "_unsafe_masked_index",
        "bucketize",
        "searchsorted",
        "max_unpool2d",
        "max_unpool3d",
    }
)
SCATTERS = frozenset(
    {
        "index_copy",
        "index_put",
        "_index_put_impl",
        "index_add",
        "index_fill",
        "index_reduce",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "put",
        "embedding_dense_backward",
        "embedding_backward",
        "_embedding_bag_dense_backward",
        "index_select_backward",
        "gather_backward",
        "bincount",
        "histc",
        "_unsafe_index_put",
        "_unsafe_masked_index_put_accumulate",
        "max_pool2d_with_indices_backward",
        "max_pool3d_with_indices_backward",
    }
)


def handles(op: OpSpec) -> bool:
    """Whether this family lowers `op`."""
    return base(op) in GATHERS | SCATTERS and bool(op.inputs) and bool(op.outputs)


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of an op that `handles` accepted."""
    return _gather(op, context) if base(op) in GATHERS else _scatter(op, context)


def row_elements(op: OpSpec, data: TensorSpec) -> int:
    """Elements moved by one index: what lies behind the indexed dimension in memory."""
    if base(op) in ("gather", "scatter", "scatter_add", "scatter_reduce", "take", "put", "take_along_dim", "histc"):
        return 1
    dim = op.scalar("dim", 0)
    axis = int(dim) % len(data.shape) if isinstance(dim, int) and data.shape and -len(data.shape) <= dim else 0
    return max(1, math.prod(data.shape[axis + 1 :]))


def rowwise(index: int, size: int, row_bytes: int, context: Context) -> Operand:
    """An operand whose rows are found one by one: streaming plus a price per row."""
    rate = machine_of(context.target).dma_bytes_per_ns
    rows = -(-size // max(1, row_bytes))
    billed = size + round(rows * context.value("dma_row") * rate)
    # The price of a row was measured on short rows as well: they pay no second time for being short.
    run = max(row_bytes, round(context.value("dma_efficient_run")))
    return Operand(index, size, run, billed_bytes=billed)


def _gather(op: OpSpec, context: Context) -> Lowering:
    out = op.outputs[0]
    name = base(op)
    data_at = 1 if name == "embedding" and op.inputs[0].dtype in INTEGER and len(op.inputs) > 1 else 0
    data = op.inputs[data_at]
    row = min(row_elements(op, data), max(1, out.numel)) * out.item_bytes
    inputs = [rowwise(data_at, out.numel * data.item_bytes, row, context)]
    inputs += [context.operand(i, t) for i, t in enumerate(op.inputs) if i != data_at]
    stage = TiledStage(
        label=op.name,
        elements=max(out.numel, max(t.numel for i, t in enumerate(op.inputs) if i != data_at or len(op.inputs) == 1)),
        item_bytes=widest((data, out)),
        inputs=tuple(inputs),
        outputs=tuple(context.operand(i, t) for i, t in enumerate(op.outputs)),
        passes=(context.copy(out.dtype),),
        units=max(1, out.numel),
    )
    return Lowering("index", "single-witness", (stage,))


def _scatter(op: OpSpec, context: Context) -> Lowering:
    """The destination is copied (and, for integers, cast there and back), then rows are read and written."""
    destination = op.outputs[0]
    sources = [(i, t) for i, t in enumerate(op.inputs) if i not in op.mutated and t.dtype == destination.dtype]
    source_at, source = max(sources, key=lambda pair: pair[1].numel, default=(0, op.inputs[-1]))
    indices = [(i, t) for i, t in enumerate(op.inputs) if i not in op.mutated and i != source_at]
    row = min(row_elements(op, destination), max(1, source.numel)) * destination.item_bytes
    narrow = destination.dtype in INTEGER and destination.item_bytes < 4
    casts = (context.integer(1.0, "TENSOR_COPY", 0.0),) * (3 if narrow else 1)
    base_at = op.mutated[0] if op.mutated else 0
    stages: list[Stage] = []
    copied = destination.numel
    if copied:
        stages.append(
            TiledStage(
                label=op.name,
                elements=copied,
                item_bytes=destination.item_bytes,
                inputs=(Operand(base_at, destination.bytes, max(1, destination.bytes)),),
                outputs=(Operand(0, destination.bytes, max(1, destination.bytes)),),
                passes=casts if narrow else (context.copy(destination.dtype),),
                units=copied,
            )
        )
    if source.numel:
        stages.append(
            TiledStage(
                label=op.name,
                elements=source.numel,
                item_bytes=source.item_bytes,
                inputs=(context.operand(source_at, source), *(context.operand(i, t) for i, t in indices)),
                outputs=(rowwise(0, source.numel * destination.item_bytes, row, context),),
                passes=casts if narrow else (context.copy(destination.dtype),),
                units=source.numel,
            )
        )
    return Lowering("index", "single-witness", tuple(stages), launches=2)
