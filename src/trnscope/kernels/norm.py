"""Normalisations: statistics of a row (or channel), then a scaling pass with weight and bias.

Counts of passes, in VectorEngine cycles per element of fp32: square 2 (tensor_tensor), row sum 1, scale 1, weight 2,
bias 2; statistics by bn_stats 1. A chain of short dependent instructions per tile of 128 rows joins the statistics.
"""

import math
from dataclasses import replace

from trnscope.core.isa import VECTOR
from trnscope.graph.spec import OpSpec, TensorSpec
from trnscope.kernels.context import HALF, Context, widest
from trnscope.kernels.pointwise import base
from trnscope.kernels.stages import Lowering, Operand, Pass, TiledStage

ROW_NORMS = frozenset(
    {
        "rms_norm",
        "_fused_rms_norm",
        "_fused_rms_norm_backward",
        "layer_norm",
        "native_layer_norm",
        "native_layer_norm_backward",
        "group_norm",
        "native_group_norm",
        "native_group_norm_backward",
        "instance_norm",
        "renorm",
    }
)
CHANNEL_NORMS = frozenset(
    {
        "batch_norm",
        "native_batch_norm",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training",
        "cudnn_batch_norm",
        "_batch_norm_with_update",
        "native_batch_norm_backward",
        "batch_norm_backward",
    }
)
OPS = ROW_NORMS | CHANNEL_NORMS


def handles(op: OpSpec) -> bool:
    """Whether this family lowers `op`."""
    return base(op) in OPS and bool(op.inputs) and bool(op.inputs[0].shape)


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of an op that `handles` accepted."""
    name = base(op)
    main = max(op.inputs, key=lambda t: t.numel)
    if name in CHANNEL_NORMS:
        return _channel(op, name, main, context)
    width = _row_width(op, name, main)
    rows = main.numel // max(1, width)
    passes = _row_passes(name, main.dtype, _weights(op, main), context)
    tiles_per_row_tile = 1.0 / max(1, -(-width * main.item_bytes // round(context.value("tile_bytes"))))
    stage = TiledStage(
        label=op.name,
        elements=main.numel,
        item_bytes=widest(op.inputs),
        inputs=_operands(op.inputs, main, context),
        outputs=tuple(context.operand(i, t) for i, t in enumerate(op.outputs)),
        passes=passes,
        units=max(1, rows),
        chunk=_chunk(width, main.item_bytes, context),
        tile_latency_ns=context.value("norm_tile_latency") * tiles_per_row_tile,
    )
    backward = name.endswith("_backward")
    return Lowering("norm", "single-witness" if backward or "group" in name else "validated", (stage,))


def _row_width(op: OpSpec, name: str, main: TensorSpec) -> int:
    """Elements that share statistics."""
    shape = op.scalar("normalized_shape")
    if isinstance(shape, tuple) and shape:
        return max(1, math.prod(int(n) for n in shape if isinstance(n, int)))
    if "group" in name and len(main.shape) >= 2:
        groups = op.scalar("num_groups", op.scalar("group", 1))
        return max(1, main.numel // max(1, main.shape[0] * (groups if isinstance(groups, int) else 1)))
    return max(1, main.shape[-1])


def _weights(op: OpSpec, main: TensorSpec) -> int:
    """Weight and bias: small tensors beside the main one (statistics of a backward left out)."""
    return min(2, len([t for t in op.inputs if t.numel < main.numel]))


def _chunk(width: int, item_bytes: int, context: Context) -> int:
    """Whole rows per tile while one fits, pieces of a row otherwise."""
    limit = max(1, round(context.value("tile_bytes")) // max(1, item_bytes))
    if width > limit:
        return -(-width // -(-width // limit))
    return width


def _row_passes(name: str, dtype: str, weights: int, context: Context) -> tuple[Pass, ...]:
    scalar = context.value("tensor_scalar_cycles") * context.dtype_factor(dtype)
    pair = context.value("tensor_tensor_cycles") * context.dtype_factor(dtype)
    half_pair = context.value("tensor_tensor_half_cycles") if dtype in HALF else pair
    stats = Pass(VECTOR, "BN_STATS", scalar, 1.0)
    scale = Pass(VECTOR, "TENSOR_SCALAR", scalar, 1.0)
    weight = Pass(VECTOR, "TENSOR_TENSOR", half_pair, 1.0)
    if name.endswith("_backward"):
        product = Pass(VECTOR, "TENSOR_TENSOR", half_pair, 1.0)
        return (product, stats, product, stats, scale, product, weight, weight)
    if "rms" in name:
        return (context.activation(dtype), stats, scale, *([weight] * min(1, weights)))
    centre = Pass(VECTOR, "TENSOR_SCALAR", scalar, 1.0)
    return (stats, centre, scale, *([Pass(VECTOR, "TENSOR_TENSOR", pair, 1.0)] * weights))


def _operands(inputs: tuple[TensorSpec, ...], main: TensorSpec, context: Context) -> tuple[Operand, ...]:
    made = []
    for i, tensor in enumerate(inputs):
        operand = context.operand(i, tensor)
        small = tensor.numel * 4 <= main.numel
        made.append(
            Operand(i, operand.bytes, operand.run_bytes, operand.bandwidth_factor, kept=True) if small else operand
        )
    return tuple(made)


def _channel(op: OpSpec, name: str, main: TensorSpec, context: Context) -> Lowering:
    """Statistics over all but the channel, then a second pass over what is still in SBUF, or is loaded again.

    Training needs all of the tensor before the first result: what exceeds the SBUF of the cores is read twice and
    its passes start over.
    """
    dtype = main.dtype
    training = False not in (op.scalar("training"), op.scalar("train")) and "no_training" not in name
    scalar = context.value("tensor_scalar_cycles") * context.dtype_factor(dtype)
    pair = context.value("tensor_tensor_cycles") * context.dtype_factor(dtype)
    stats = (Pass(VECTOR, "BN_STATS", scalar, 1.0), Pass(VECTOR, "TENSOR_TENSOR", pair, 1.0))
    apply = (
        Pass(VECTOR, "TENSOR_SCALAR", scalar, 1.0),
        Pass(VECTOR, "TENSOR_SCALAR", scalar, 1.0),
        Pass(VECTOR, "TENSOR_TENSOR", pair, 1.0),
    )
    resident = context.value("sbuf_bytes") * context.target.physical_cores / 2
    extra = max(0, main.bytes - round(resident)) if training else 0
    inputs = _operands(op.inputs, main, context)
    share = extra / max(1, main.bytes)
    scaled = tuple(replace(p, flops_per_element=p.flops_per_element * share, share=share) for p in stats)
    passes = (*(stats if training else ()), *apply, *(scaled if extra else ()))
    stage = TiledStage(
        label=op.name,
        elements=main.numel,
        item_bytes=widest(op.inputs),
        inputs=inputs,
        outputs=tuple(context.operand(i, t) for i, t in enumerate(op.outputs)),
        passes=passes,
        units=main.numel,
    )
    stages: tuple[TiledStage, ...] = (stage,)
    if extra:
        index = next(i for i, t in enumerate(op.inputs) if t is main)
        reload = TiledStage(
            label=op.name,
            elements=max(1, extra // main.item_bytes),
            item_bytes=main.item_bytes,
            inputs=(Operand(index, extra, main.bytes),),
            outputs=(),
            passes=apply,
            units=max(1, extra // main.item_bytes),
        )
        stages = (reload, stage)
    return Lowering("norm", "validated", stages)
