"""Ops that are a known number of passes over their tensors: scans, random numbers, losses, optimizer steps, pooling.

The tables give the passes per element of the largest tensor: (VectorEngine passes over one tensor, VectorEngine
passes over two tensors, ScalarEngine passes).
"""

import math

from trnscope.core.isa import GPSIMD, VECTOR
from trnscope.graph.spec import OpSpec, TensorSpec
from trnscope.kernels import pointwise
from trnscope.kernels.context import Context, widest
from trnscope.kernels.stages import Lowering, Operand, Pass, TiledStage

SCANS = frozenset({"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "_cummax_helper", "_cummin_helper",
    "cumulative_trapezoid", "diff", "trapezoid"})  # fmt: skip

RANDOM = frozenset({"normal", "uniform", "bernoulli", "random", "rand", "randn", "randint", "rand_like", "randn_like",
    "randint_like", "exponential", "geometric", "cauchy", "log_normal", "native_dropout", "dropout", "randperm",
    "multinomial", "poisson", "alpha_dropout", "feature_dropout", "_fused_dropout", "binomial",
    "native_dropout_backward"})  # fmt: skip

LOSSES = {
    "mse_loss": (1, 1, 0),
    "l1_loss": (1, 1, 0),
    "smooth_l1_loss": (4, 1, 0),
    "huber_loss": (4, 1, 0),
    "binary_cross_entropy": (2, 3, 2),
    "binary_cross_entropy_with_logits": (3, 2, 2),
    "nll_loss": (1, 0, 0),
    "nll_loss_forward": (1, 0, 0),
    "nll_loss2d": (1, 0, 0),
    "nll_loss2d_forward": (1, 0, 0),
    "nll_loss_nd": (1, 0, 0),
    "nll_loss_backward": (1, 0, 0),
    "nll_loss2d_backward": (1, 0, 0),
    "cross_entropy_loss": (3, 0, 1),
    "soft_margin_loss": (2, 1, 2),
    "kl_div": (1, 2, 1),
    "poisson_nll_loss": (2, 2, 1),
    "gaussian_nll_loss": (2, 3, 1),
    "hinge_embedding_loss": (3, 1, 0),
    "margin_ranking_loss": (3, 1, 0),
    "multi_margin_loss": (4, 1, 0),
    "multilabel_margin_loss": (4, 1, 0),
    "multilabel_margin_loss_forward": (4, 1, 0),
    "cosine_embedding_loss": (3, 3, 0),
    "cosine_similarity": (2, 3, 0),
    "pairwise_distance": (2, 1, 1),
    "triplet_margin_loss": (4, 2, 1),
    "mse_loss_backward": (2, 1, 0),
    "smooth_l1_loss_backward": (4, 2, 0),
    "huber_loss_backward": (4, 2, 0),
    "binary_cross_entropy_backward": (3, 3, 0),
    "soft_margin_loss_backward": (3, 2, 1),
}

OPTIMIZERS = {
    "_fused_adam": (6, 4, 1),
    "_fused_adamw": (7, 4, 1),
    "_fused_sgd": (2, 2, 0),
    "_fused_adagrad": (3, 3, 1),
    "_amp_foreach_non_finite_check_and_unscale": (2, 0, 0),
    "_amp_update_scale": (4, 0, 0),
}

POOLS = frozenset({"max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d",
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
    "avg_pool2d_backward", "avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward",
    "adaptive_max_pool2d_backward", "fractional_max_pool2d", "fractional_max_pool3d", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d",
    "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_nearest2d_backward",
    "upsample_bilinear2d_backward", "upsample_bicubic2d_backward"})  # fmt: skip

# Multiply-adds per result of an interpolation.
_NEIGHBOURS = {"nearest": 1, "linear": 2, "bilinear": 4, "trilinear": 8, "bicubic": 16}


def _table(op: OpSpec) -> tuple[int, int, int] | None:
    name = pointwise.base(op)
    return LOSSES.get(name) or OPTIMIZERS.get(name)


def handles(op: OpSpec) -> bool:
    """Whether this family lowers `op`."""
    name = pointwise.base(op)
    if not op.inputs and not op.outputs:
        return False
    if name in POOLS:
        return bool(op.inputs) and bool(written(op))
    return name in SCANS | RANDOM or _table(op) is not None or _foreach(op) is not None


def _foreach(op: OpSpec) -> str | None:
    """The element-wise op behind a `_foreach_` op."""
    name = pointwise.base(op)
    if not name.startswith("_foreach_"):
        return None
    inner = name.removeprefix("_foreach_")
    return inner if inner in pointwise.OPS or inner in ("copy", "norm", "max") else None


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of an op that `handles` accepted."""
    name = pointwise.base(op)
    dtype = next((t.dtype for t in (*op.inputs, *op.outputs)), "float32")
    if name in SCANS:
        scan = Pass(VECTOR, "SCAN", context.value("scan_cycles") * context.dtype_factor(dtype), 1.0)
        return Lowering("scan", "single-witness", (_stream(op, (scan,), context),))
    if name in RANDOM:
        draw = Pass(GPSIMD, "RNG", context.value("random_cycles"), 1.0)
        scale = context.tensor_scalar(dtype)
        passes: tuple[Pass, ...] = (scale,) if "backward" in name else (draw, scale)
        return Lowering("random", "unseen", (_stream(op, passes, context),))
    if name in POOLS:
        return Lowering("pool", "single-witness", (_pool(op, name, dtype, context),))
    inner = _foreach(op)
    if inner is not None:
        passes = pointwise.op_passes(op, inner, context) if inner in pointwise.OPS else (context.reduce(dtype),)
        return Lowering("foreach", "single-witness", (_stream(op, passes, context),))
    counts = _table(op)
    assert counts is not None
    single, double, scalar = counts
    passes = (
        (context.tensor_tensor((dtype, dtype)),) * double
        + (context.activation(dtype),) * scalar
        + (context.tensor_scalar(dtype),) * single
    )
    kernel = "optimizer" if name in OPTIMIZERS else "loss"
    return Lowering(kernel, "single-witness", (_stream(op, passes, context),))


def written(op: OpSpec) -> tuple[TensorSpec, ...]:
    """What an op writes: its results, or its arguments when it only works in place."""
    return op.outputs or tuple(op.inputs[i] for i in op.mutated)


def _elements(op: OpSpec) -> int:
    """Points worked on: of lists, all tensors of one list; of other ops, the largest tensor."""
    name = pointwise.base(op)
    results = written(op)
    if name.startswith("_foreach_"):
        return sum(t.numel for t in results) or max((t.numel for t in op.inputs), default=0)
    if name in OPTIMIZERS:
        # Parameters, gradients and moments are lists of one length; a step count per parameter is tiny.
        large = [t.numel for t in op.inputs if t.numel > 1]
        lists = 4 if "adam" in name else 2
        return sum(large) // lists
    return max((t.numel for t in (*op.inputs, *results)), default=0)


def _stream(op: OpSpec, passes: tuple[Pass, ...], context: Context) -> TiledStage:
    """Everything in, the passes, everything out."""
    results = written(op)
    elements = _elements(op)
    inputs = _joined([context.operand(i, t) for i, t in enumerate(op.inputs) if _is_read(op, i)])
    outputs = _joined([context.operand(i, t) for i, t in enumerate(results)])
    return TiledStage(
        label=op.name,
        elements=max(elements, 1 if inputs or outputs else 0),
        item_bytes=widest((*op.inputs, *results)),
        inputs=inputs,
        outputs=outputs,
        passes=passes,
        units=max(elements, 1),
    )


def _is_read(op: OpSpec, index: int) -> bool:
    """A random fill overwrites its argument."""
    return not (pointwise.base(op) in RANDOM and index in op.mutated)


def _joined(operands: list[Operand]) -> tuple[Operand, ...]:
    """Many small tensors of a list as one operand: the loads of a list follow each other on one ring anyway."""
    if len(operands) <= 4:
        return tuple(operands)
    size = sum(o.bytes for o in operands)
    runs = [o.run_bytes for o in operands if o.bytes]
    return (Operand(operands[0].index, size, max(1, size // max(1, len(runs)))),)


def _pool(op: OpSpec, name: str, dtype: str, context: Context) -> TiledStage:
    """Each result from its window: one pass over two tensors per element of the window."""
    results = written(op)
    small, large = sorted((op.inputs[0], results[0]), key=lambda t: t.numel)
    window = op.scalar("kernel_size")
    if isinstance(window, tuple) and window:
        taps = math.prod(int(n) for n in window if isinstance(n, int))
    elif isinstance(window, int):
        taps = window ** max(1, len(small.shape) - 2)
    elif name.startswith(("upsample", "_upsample")):
        taps = next((n for key, n in reversed(_NEIGHBOURS.items()) if key in name), 1)
    else:
        taps = -(-large.numel // max(1, small.numel))
    elements = results[0].numel
    pair = context.tensor_tensor((dtype, dtype))
    each = Pass(pair.engine, pair.opcode, pair.cycles_per_element * max(1, taps), float(max(1, taps)))
    return TiledStage(
        label=op.name,
        elements=elements,
        item_bytes=widest((*op.inputs, *results)),
        inputs=tuple(context.operand(i, t) for i, t in enumerate(op.inputs)),
        outputs=tuple(context.operand(i, t) for i, t in enumerate(results)),
        passes=(each,),
        units=max(1, elements),
    )
