"""Ops that move data: copies, casts, transposes, concatenation, padding, repetition, filling.

What costs is the layout: contiguous runs, transposition, and the wider side of a cast.
"""

from dataclasses import replace

from trnscope.core.isa import VECTOR
from trnscope.graph.spec import OpSpec, TensorSpec
from trnscope.kernels.context import Context, contiguous_run, widest
from trnscope.kernels.pointwise import base, off_grid
from trnscope.kernels.stages import Lowering, Operand, Pass, TiledStage

MOVES = frozenset(
    {
        "copy", "clone", "contiguous", "_to_copy", "to", "cat", "concat", "stack", "hstack", "vstack", "repeat",
        "repeat_interleave", "tile", "constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d",
        "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d", "roll", "flip",
        "fliplr", "flipud", "rot90", "tril", "triu", "diag_embed", "diag", "slice_scatter", "select_scatter",
        "diagonal_scatter", "as_strided_scatter", "slice_backward", "select_backward", "narrow_copy",
        "expand_copy", "view_copy", "permute_copy", "transpose_copy", "t_copy", "unfold_backward", "im2col",
        "col2im", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "split_copy", "unbind_copy",
        "reshape_copy", "squeeze_copy", "unsqueeze_copy", "detach_copy", "alias_copy", "as_strided_copy",
        "slice_copy", "select_copy", "unfold_copy", "diagonal_copy", "block_diag", "_reshape_copy",
        "split_with_sizes_copy", "lift_fresh_copy", "lift", "resize", "set_source",
    }
)  # fmt: skip
FILLS = frozenset(
    {
        "zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "arange", "linspace", "logspace",
        "eye", "range", "tril_indices", "triu_indices", "scalar_tensor", "hann_window", "hamming_window",
        "bartlett_window", "blackman_window", "kaiser_window", "vander",
    }
)  # fmt: skip
OPS = MOVES | FILLS


def handles(op: OpSpec) -> bool:
    """Whether this family lowers `op`."""
    return base(op) in OPS and bool(op.outputs)


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of an op that `handles` accepted."""
    name = base(op)
    if name in FILLS:
        return _fill(op, context)
    sources = tuple((i, t) for i, t in enumerate(op.inputs) if _is_source(op, i))
    destination = op.outputs[0]
    moved = sum(t.numel for _, t in sources)
    wide = widest((*(t for _, t in sources), destination))
    cast = any(t.dtype != destination.dtype for _, t in sources)
    factor = 1.0
    confidence = "validated"
    if any(_transposes(t, destination) for _, t in sources):
        factor, confidence = context.value("dma_transpose_factor"), "single-witness"
    inputs = tuple(_side(context.operand(i, t), t, wide if cast else 0, factor) for i, t in sources)
    outputs = tuple(_side(context.operand(i, t), t, wide if cast else 0, factor) for i, t in enumerate(op.outputs))
    if name in ("flip", "roll", "fliplr", "flipud", "rot90"):
        confidence = "unseen"
    elements = max(destination.numel, moved if name not in ("repeat", "expand_copy") else 0)
    # Tensors outside the copied part of a scatter-like op are read and written as well: outputs say so.
    stage = TiledStage(
        label=op.name,
        elements=elements,
        item_bytes=wide,
        inputs=inputs,
        outputs=outputs,
        passes=(context.copy("float32" if cast else destination.dtype),),
        units=elements,
    )
    return Lowering("copy", confidence, (off_grid(op, stage, context),))


def _fill(op: OpSpec, context: Context) -> Lowering:
    elements = sum(t.numel for t in op.outputs)
    stage = TiledStage(
        label=op.name,
        elements=elements,
        item_bytes=widest(op.outputs),
        inputs=(),
        outputs=tuple(context.operand(i, t) for i, t in enumerate(op.outputs)),
        passes=(Pass(VECTOR, "MEMSET", context.value("tensor_scalar_cycles"), 0.0),),
        units=elements,
    )
    return Lowering("copy", "single-witness", (stage,))


def _is_source(op: OpSpec, index: int) -> bool:
    """The destination of `copy_` is only written."""
    return not (base(op) == "copy" and index in op.mutated and len(op.inputs) > 1)


def _transposes(source: TensorSpec, destination: TensorSpec) -> bool:
    """Whether the innermost dimension of one side is not that of the other."""
    if source.numel <= 1 or destination.numel <= 1 or source.shape != destination.shape:
        return False
    return (
        contiguous_run(source) > 1
        and contiguous_run(destination) > 1
        and _innermost(source) != _innermost(destination)
        and source.numel == source.unique_bytes // source.item_bytes
    )


def _innermost(tensor: TensorSpec) -> int:
    """The dimension with the smallest stride among those with more than one element."""
    candidates = [(stride, d) for d, (n, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True)) if n > 1]
    return min(candidates)[1] if candidates else 0


def _side(operand: Operand, tensor: TensorSpec, billed_item: int, factor: float) -> Operand:
    billed = operand.bytes // tensor.item_bytes * billed_item if billed_item > tensor.item_bytes else 0
    run = max(operand.run_bytes, contiguous_run(tensor) * tensor.item_bytes)
    return replace(operand, billed_bytes=billed, run_bytes=run, bandwidth_factor=min(operand.bandwidth_factor, factor))
