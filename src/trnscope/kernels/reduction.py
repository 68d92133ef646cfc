"""Reductions: along the free axis on the VectorEngine, across partitions by a product with ones.

A row that is reduced lies in one partition when the reduced dimensions are the innermost ones; otherwise the reduced
dimension lies across partitions and the TensorEngine sums it (or GpSimd, for what is no sum).
"""

import math

from trnscope.core.isa import GPSIMD, TENSOR, VECTOR
from trnscope.graph.spec import OpSpec, TensorSpec
from trnscope.kernels.context import INTEGER, Context, widest
from trnscope.kernels.pointwise import base
from trnscope.kernels.stages import Lowering, Pass, TiledStage

# Passes over all elements besides the reduction itself: (vector, scalar).
OPS = {
    "sum": (0, 0),
    "mean": (0, 0),
    "amax": (0, 0),
    "amin": (0, 0),
    "max": (0, 0),
    "min": (0, 0),
    "all": (0, 0),
    "any": (0, 0),
    "prod": (0, 0),
    "nansum": (1, 0),
    "nanmean": (2, 0),
    "count_nonzero": (1, 0),
    "argmax": (1, 0),
    "argmin": (1, 0),
    "aminmax": (1, 0),
    "var": (1, 0),
    "std": (1, 0),
    "var_mean": (1, 0),
    "std_mean": (1, 0),
    "norm": (1, 0),
    "linalg_vector_norm": (1, 0),
    "_linalg_vector_norm": (1, 0),
    "logsumexp": (2, 1),
    "dist": (2, 0),
    "dot": (2, 0),
    "vdot": (2, 0),
    "trace": (0, 0),
    "equal": (1, 0),
    "_is_all_true": (0, 0),
    "_is_any_true": (0, 0),
}

SUMS = frozenset({"sum", "mean", "nansum", "nanmean", "var", "std", "var_mean", "std_mean", "norm", "count_nonzero"})


def handles(op: OpSpec) -> bool:
    """Whether this family lowers `op`."""
    return base(op) in OPS and bool(op.inputs)


def reduced_dims(op: OpSpec) -> tuple[int, ...]:
    """Dimensions that are reduced, from the arguments; all of them when none are named."""
    rank = len(op.inputs[0].shape)
    dim = op.scalar("dim", op.scalar("dims"))
    if dim is None or dim == () or rank == 0:
        return tuple(range(rank))
    dims = dim if isinstance(dim, tuple) else (dim,)
    return tuple(sorted({int(d) % rank for d in dims if isinstance(d, int) and -rank <= d < rank}))


def is_innermost(tensor: TensorSpec, dims: tuple[int, ...]) -> bool:
    """Whether the reduced dimensions are the last ones (sizes of 1 do not count)."""
    others = [d for d in range(len(tensor.shape)) if d not in dims and tensor.shape[d] > 1]
    return not others or all(d > max(others) for d in dims if tensor.shape[d] > 1)


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of an op that `handles` accepted."""
    name = base(op)
    tensor = op.inputs[0]
    dims = reduced_dims(op)
    reduced = math.prod(tensor.shape[d] for d in dims) if dims else 1
    rows = tensor.numel // max(1, reduced)
    dtype = tensor.dtype
    vector, scalar = OPS[name]
    dtypes = tuple(t.dtype for t in op.inputs)
    passes: list[Pass] = []
    if dtype in INTEGER and dtype != "bool":
        passes.append(context.integer(1.0, "TENSOR_COPY", 0.0))
    passes += [context.activation(dtype)] * scalar
    passes += [context.tensor_tensor(dtypes) if len(op.inputs) > 1 else context.tensor_scalar(dtype)] * vector
    inner = is_innermost(tensor, dims)
    if inner:
        passes.append(context.reduce(dtype))
    else:
        passes.append(_across(name, dtype, context))
    small = Pass(VECTOR, "TENSOR_SCALAR", 1.0, 0.0, share=min(1.0, rows / max(1, tensor.numel)))
    passes.append(small)
    stage = TiledStage(
        label=op.name,
        elements=tensor.numel,
        item_bytes=widest((*op.inputs, *op.outputs)),
        inputs=tuple(context.operand(i, t) for i, t in enumerate(op.inputs)),
        outputs=tuple(context.operand(i, t) for i, t in enumerate(op.outputs)),
        passes=tuple(passes),
        units=rows if inner and rows > 1 else tensor.numel,
    )
    confidence = "validated" if inner and name in ("sum", "mean") else "single-witness"
    return Lowering("reduction", confidence, (stage,))


def _across(name: str, dtype: str, context: Context) -> Pass:
    """Across partitions: ones x tile on the TensorEngine, one column per element; GpSimd for maxima."""
    if name in SUMS:
        passes = 1.0 if dtype in ("bfloat16", "float16") else context.value("matmul_fp32_passes")
        return Pass(TENSOR, "MATMUL", passes, 1.0)
    return Pass(GPSIMD, "TENSOR_REDUCE", context.value("gpsimd_cycles"), 1.0)
