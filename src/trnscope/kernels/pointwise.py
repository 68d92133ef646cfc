"""Element-wise ops: one pass through SBUF, each output element from the input elements at its position.

The table says which engine does what: arithmetic and comparisons on the VectorEngine, transcendental functions on the
ScalarEngine. Types that no engine computes in are up-cast: integers run as passes of integer arithmetic.
"""

from dataclasses import replace

from trnscope.graph.spec import OpSpec
from trnscope.kernels.context import INTEGER, Context, widest
from trnscope.kernels.stages import Lowering, Operand, Pass, TiledStage

ARITHMETIC = frozenset(
    {
        "add", "sub", "rsub", "mul", "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge",
        "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "__and__",
        "__or__", "__xor__", "copysign",
    }
)  # fmt: skip
"""Two tensors (or a tensor and a number) in one VectorEngine instruction."""

ONE_PASS = frozenset(
    {
        "relu", "neg", "abs", "positive", "clamp", "clamp_min", "clamp_max", "logical_not", "bitwise_not",
        "sign", "sgn", "signbit", "round", "floor", "ceil", "trunc", "fill", "zero", "ones_like", "zeros_like",
        "full_like", "hardtanh", "relu6", "threshold", "square", "isnan", "isinf", "isfinite", "isposinf",
        "isneginf", "nan_to_num", "real", "imag", "conj_physical", "bitwise_left_shift",
        "bitwise_right_shift", "__lshift__", "__rshift__", "frac", "deg2rad", "rad2deg", "heaviside",
    }
)  # fmt: skip
"""One tensor in one VectorEngine instruction."""

FUNCTION = frozenset(
    {
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh",
        "sigmoid", "erf", "erfc", "gelu", "silu", "mish", "softplus", "log_sigmoid", "logit", "sinc", "i0",
        "asinh", "acosh", "atanh", "sinh", "cosh", "asin", "acos", "atan", "elu", "celu", "selu", "hardsigmoid",
        "hardswish", "erfinv", "lgamma", "digamma", "special_entr",
    }
)  # fmt: skip
"""One ScalarEngine activation."""

# Further instructions beyond one VectorEngine pass or one activation: (vector passes, scalar passes).
COMPOSITE = {
    "div": (3, 0),
    "true_divide": (3, 0),
    "floor_divide": (4, 0),
    "remainder": (5, 0),
    "fmod": (5, 0),
    "reciprocal": (2, 0),
    "pow": (1, 2),
    "float_power": (1, 2),
    "atan2": (3, 1),
    "hypot": (3, 1),
    "xlogy": (1, 1),
    "logaddexp": (3, 2),
    "logaddexp2": (3, 2),
    "addcmul": (2, 0),
    "addcdiv": (4, 0),
    "lerp": (3, 0),
    "where": (2, 0),
    "masked_fill": (2, 0),
    "masked_scatter": (3, 0),
    "glu": (1, 1),
    "prelu": (3, 0),
    "_prelu_kernel": (3, 0),
    "leaky_relu": (2, 0),
    "rrelu_with_noise": (3, 0),
    "hardshrink": (2, 0),
    "softshrink": (3, 0),
    "log_sigmoid_forward": (2, 2),
    "threshold_backward": (2, 0),
    "relu_backward": (2, 0),
    "sigmoid_backward": (3, 0),
    "tanh_backward": (3, 0),
    "silu_backward": (4, 1),
    "gelu_backward": (4, 2),
    "mish_backward": (5, 2),
    "softplus_backward": (2, 1),
    "elu_backward": (3, 1),
    "leaky_relu_backward": (2, 0),
    "hardtanh_backward": (3, 0),
    "hardswish_backward": (3, 0),
    "hardsigmoid_backward": (3, 0),
    "hardshrink_backward": (2, 0),
    "softshrink_backward": (2, 0),
    "logit_backward": (4, 0),
    "log_sigmoid_backward": (3, 1),
    "glu_backward": (4, 1),
    "_prelu_kernel_backward": (4, 0),
    "polar": (2, 2),
    "complex": (2, 0),
    "nextafter": (3, 0),
    "ldexp": (1, 1),
    "xlog1py": (1, 1),
    "addr": (2, 0),
    "angle": (2, 1),
    "frexp": (4, 1),
    "_conj_physical": (1, 0),
    "gcd": (16, 0),
    "lcm": (18, 0),
}

SERIES = frozenset(
    {
        "polygamma", "mvlgamma", "igamma", "igammac", "zeta", "ndtri", "log_ndtr", "erfcx", "airy_ai", "bessel_j0",
        "bessel_j1", "bessel_y0", "bessel_y1", "i0e", "i1", "i1e", "modified_bessel_i0", "modified_bessel_i1",
        "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
        "spherical_bessel_j0", "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
        "chebyshev_polynomial_w", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
        "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "hermite_polynomial_h",
        "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    }
)  # fmt: skip
"""Special functions without an activation table: a polynomial or recurrence of about a dozen steps, two exponentials or
logarithms. How a compiler evaluates them is not known."""

SERIES_PASSES = (12, 2)

OPS = SERIES | ARITHMETIC | ONE_PASS | FUNCTION | frozenset(COMPOSITE)

_WITNESSED = frozenset({"add", "mul", "relu", "sigmoid", "silu", "log", "sub"})
"""Ops with measured rows of their own; what shares their instructions counts as validated as well."""


def base(op: OpSpec) -> str:
    """Name without overload and the underscore of in-place ops; `special_` and `_foreach_` left in place."""
    name = op.base_name
    if name.startswith("__"):
        return name
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def handles(op: OpSpec) -> bool:
    """Whether this family lowers `op`."""
    name = base(op)
    return name in OPS or name.removeprefix("special_") in OPS


def lower(op: OpSpec, context: Context) -> Lowering:
    """One tiled stage over the broadcast shape."""
    name = base(op).removeprefix("special_")
    passes = op_passes(op, name, context)
    integer = any(t.dtype in INTEGER and t.dtype != "bool" for t in op.inputs)
    confidence = "validated" if name in OPS and not integer else "single-witness"
    if name in COMPOSITE and name not in _WITNESSED:
        confidence = "single-witness"
    elif name in SERIES:
        confidence = "unseen"
    return Lowering("pointwise", confidence, (tiled(op, passes, context),))


def op_passes(op: OpSpec, name: str, context: Context) -> tuple[Pass, ...]:
    """Engine passes of one element-wise op."""
    dtypes = tuple(t.dtype for t in op.inputs) or tuple(t.dtype for t in op.outputs)
    dtype = dtypes[0] if dtypes else "float32"
    if dtypes and all(d in INTEGER for d in dtypes) and name not in ("where", "masked_fill", "fill", "zero"):
        return _integer_passes(op, name, context)
    tensors = len([t for t in op.inputs if t.numel > 1])
    passes: list[Pass] = []
    if name in ARITHMETIC:
        passes.append(context.tensor_tensor(dtypes) if tensors > 1 else context.tensor_scalar(dtype))
        if tensors > 1 and op.scalar("alpha", 1) not in (1, 1.0, None):
            passes.insert(0, context.tensor_scalar(dtype))
    elif name in FUNCTION:
        passes.append(context.activation(dtype))
    elif name in COMPOSITE or name in SERIES:
        vector, scalar = COMPOSITE.get(name, SERIES_PASSES)
        if tensors < 2 and name in ("div", "true_divide"):
            vector = 1
        passes += [context.activation(dtype)] * scalar
        passes += [context.tensor_tensor(dtypes) if tensors > 1 else context.tensor_scalar(dtype)] * vector
    else:
        passes.append(context.tensor_scalar(dtype))
    if len(set(dtypes)) > 1 and any(d in INTEGER and d != "bool" for d in dtypes):
        passes.insert(0, context.copy("float32"))
    return tuple(passes)


def _integer_passes(op: OpSpec, name: str, context: Context) -> tuple[Pass, ...]:
    """Integers on an engine that computes in fp32: cast every operand up, compute, cast the result down.

    A number is spread to a tensor first and then costs as one. Integer multiplication is much slower than these
    passes explain and is counted as a software routine.
    """
    tensors = max(1, len(op.inputs))
    if name == "mul":
        count = context.value("integer_multiply_passes") + tensors + 2
        return (context.integer(count, "CUSTOM"),)
    cast = context.integer(1.0, "TENSOR_COPY", 0.0)
    scalars = 1 if name in ARITHMETIC and tensors < 2 else 0
    work = context.value("tensor_tensor_cycles") if name in ARITHMETIC else 1.0
    passes = [cast] * tensors + [context.integer(1.0, "MEMSET", 0.0)] * scalars
    if name == "add" and tensors > 1:
        passes.append(context.integer(1.0, "TENSOR_SCALAR", 0.0))  # alpha
    passes.append(context.integer(work))
    if not op.outputs or op.outputs[0].dtype != "bool":
        passes.append(cast)
    return tuple(passes)


def tiled(op: OpSpec, passes: tuple[Pass, ...], context: Context) -> TiledStage:
    """The stage of an op whose outputs and inputs all have (or broadcast to) one shape."""
    tensors = (*op.inputs, *op.outputs)
    elements = 0 if any(t.numel == 0 for t in op.outputs) else max((t.numel for t in tensors), default=0)
    inputs = tuple(
        _broadcast_operand(context.operand(i, t), t.numel, elements) for i, t in enumerate(op.inputs) if _is_read(op, i)
    )
    outputs = tuple(context.operand(i, t) for i, t in enumerate(op.outputs))
    stage = TiledStage(
        label=op.name,
        elements=elements,
        item_bytes=widest(tensors),
        inputs=inputs,
        outputs=outputs,
        passes=passes,
        units=elements,
    )
    return off_grid(op, stage, context)


def _is_read(op: OpSpec, index: int) -> bool:
    """A tensor that is only overwritten is not loaded."""
    return not (base(op) in ("fill", "zero", "copy") and index in op.mutated)


def _broadcast_operand(operand: Operand, numel: int, elements: int) -> Operand:
    """An operand of which a tile needs all or little: kept in SBUF when it is broadcast and small."""
    small = operand.bytes * 4 <= elements
    return (
        Operand(operand.index, operand.bytes, operand.run_bytes, operand.bandwidth_factor, kept=True)
        if numel < elements and small
        else operand
    )


def off_grid(op: OpSpec, stage: TiledStage, context: Context) -> TiledStage:
    """One-dimensional sizes that the partitions do not divide run on one of them, in chunks, without overlap.

    Applies to tensors larger than one chunk per partition; small ones fit in one tile either way.
    """
    lanes = round(context.value("sbuf_partitions"))
    chunk = round(context.value("lane_chunk"))
    flat = all(len(t.shape) <= 1 for t in (*op.inputs, *op.outputs))
    if not flat or stage.elements % lanes == 0 or stage.elements <= lanes * chunk:
        return stage
    return replace(stage, lanes=1, chunk=chunk, serial=True)
