"""The torch computations of the measured rows, as op specifications in the order of dispatch."""

from collections.abc import Callable, Iterable
from typing import Any

from trnscope.graph.spec import OpSpec, Scalar, TensorSpec

Tensors = tuple[TensorSpec, ...]
SHORT_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}


def dense(dtype: str, *shape: int) -> TensorSpec:
    """A contiguous tensor."""
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return TensorSpec(dtype, shape, tuple(reversed(strides)))


def view(source: TensorSpec, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> TensorSpec:
    return TensorSpec(source.dtype, shape, strides, offset)


def op(name: str, inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec], **scalars: Scalar) -> OpSpec:
    return OpSpec(f"aten::{name}", tuple(inputs), tuple(outputs), tuple(scalars.items()))


def in_place(name: str, inputs: Iterable[TensorSpec], **scalars: Scalar) -> OpSpec:
    """An op that writes its first input and returns it."""
    tensors = tuple(inputs)
    return OpSpec(f"aten::{name}", tensors, tensors[:1], tuple(scalars.items()), mutated=(0,), aliased=(0,))


def cast(source: TensorSpec, dtype: str) -> tuple[OpSpec, TensorSpec]:
    made = dense(dtype, *source.shape)
    return op("_to_copy", [source], [made], dtype=dtype), made


def _same(name: str) -> Callable[[Tensors], list[OpSpec]]:
    return lambda x: [op(name, x, x[:1])]


def _scalar(name: str, value: Scalar) -> Callable[[Tensors], list[OpSpec]]:
    return lambda x: [op(name, x, x[:1], other=value)]


def _mm(x: Tensors) -> list[OpSpec]:
    return [op("mm", x, [dense(x[0].dtype, x[0].shape[0], x[1].shape[1])])]


def _bmm(x: Tensors) -> list[OpSpec]:
    m = round((x[0].numel // 32) ** 0.5)
    cube = dense(x[0].dtype, 32, m, m)
    return [op("bmm", [cube, cube], [cube])]


def _rms_norm(x: Tensors) -> list[OpSpec]:
    rows = dense("float32", *x[0].shape[:-1], 1)
    return [op("_fused_rms_norm", x, [x[0], rows], normalized_shape=(x[0].shape[-1],))]


def _layer_norm(x: Tensors) -> list[OpSpec]:
    calls: list[OpSpec] = []
    wide = list(x)
    if x[0].dtype != "float32":
        for position, tensor in enumerate(x):
            call, wide[position] = cast(tensor, "float32")
            calls.append(call)
    rows = dense("float32", *x[0].shape[:-1], 1)
    calls.append(op("native_layer_norm", wide, [wide[0], rows, rows], normalized_shape=(x[0].shape[-1],)))
    if x[0].dtype != "float32":
        calls.append(cast(wide[0], x[0].dtype)[0])
    return calls


def _batch_norm(x: Tensors) -> list[OpSpec]:
    calls: list[OpSpec] = []
    wide = list(x)
    if x[0].dtype != "float32":
        for position in (1, 2):
            call, wide[position] = cast(x[position], "float32")
            calls.append(call)
    calls.append(op("native_batch_norm", wide, [x[0], wide[1], wide[1]], training=True))
    return calls


def _fused_activation(x: Tensors) -> list[OpSpec]:
    return [op("mul.Tensor", x[:2], x[:1]), op("add.Tensor", x[:2], x[:1]), op("silu", x[:1], x[:1])]


def _dropout(x: Tensors) -> list[OpSpec]:
    return [op("mul.Tensor", x, x[:1]), op("mul.Tensor", x[:1], x[:1], other=2.0)]


def _conv1d(x: Tensors) -> list[OpSpec]:
    out = dense(x[0].dtype, 1, x[1].shape[0], x[0].shape[2])
    return [op("convolution", x, [out], stride=(1,), padding=(1,), dilation=(1,), transposed=False, groups=1)]


def _interleave(x: Tensors) -> list[OpSpec]:
    n = x[0].numel
    halves = [view(x[0], (n,), (2,), offset) for offset in (0, 1)]
    return [in_place("copy_", [half, x[0]]) for half in halves]


def _dequantize(x: Tensors) -> list[OpSpec]:
    wide = dense("float32", *x[0].shape)
    column = view(x[1], (x[1].numel, 1), (1, 1))
    return [
        op("mul.Tensor", [column, x[0]], [wide]),
        op("mul.Tensor", [wide], [wide], other=1 / 127),
        op("_to_copy", [wide], [dense("float16", *x[0].shape)], dtype="float16"),
    ]


def _topk(x: Tensors, k: int) -> list[OpSpec]:
    return [op("topk", x, [dense(x[0].dtype, k), dense("int64", k)], k=k, dim=-1, largest=True, sorted=True)]


def _index_copy(x: Tensors) -> list[OpSpec]:
    nope, rope, index, out_nope, out_rope = x
    return [in_place("index_copy_", [out, index, kv], dim=0) for out, kv in ((out_nope, nope), (out_rope, rope))]


def _kl(x: Tensors) -> list[OpSpec]:
    rows = dense("float32", x[0].shape[0])
    return [
        op("log", x[1:], x[:1]),
        op("sub.Tensor", x, x[:1]),
        op("mul.Tensor", x, x[:1]),
        op("sum.dim_IntList", x[:1], [rows], dim=(-1,)),
    ]


def _jacobi(x: Tensors) -> list[OpSpec]:
    rows, inner = x[0].shape[0], x[0].shape[0] - 2
    grid = x[0]
    shifts = [1, 2 * rows + 1, rows, rows + 2]
    up, down, left, right = (view(grid, (inner, inner), (rows, 1), offset) for offset in shifts)
    work = dense(grid.dtype, inner, inner)
    centre = view(grid, (inner, inner), (rows, 1), rows + 1)
    return [
        op("clone", [grid], [grid]),
        op("add.Tensor", [up, down], [work]),
        op("add.Tensor", [work, left], [work]),
        op("add.Tensor", [work, right], [work]),
        op("mul.Tensor", [work], [work], other=0.25),
        in_place("copy_", [centre, work]),
    ]


def _transpose(x: Tensors) -> list[OpSpec]:
    rows, columns = x[0].shape
    turned = view(x[0], (columns, rows), (1, columns))
    return [op("clone", [turned], [dense(x[0].dtype, columns, rows)], memory_format="contiguous_format")]


def _flip(x: Tensors) -> list[OpSpec]:
    return [op("flip", x, x[:1], dims=(0,))]


def _histogram(x: Tensors, bins: int) -> list[OpSpec]:
    call, wide = cast(x[0], "int64")
    counts = dense("int64", bins)
    return [call, op("bincount", [wide], [counts], minlength=bins), cast(counts, "int32")[0]]


_PROGRAMS: dict[str, Callable[[Tensors], list[OpSpec]]] = {
    "relu": _same("relu"),
    "sigmoid": _same("sigmoid"),
    "vector_add": _same("add.Tensor"),
    "matrix_copy": _scalar("add.Tensor", 0),
    "mul2": _scalar("mul.Tensor", 2),
    "matmul_fp32_fp16_fp8": _mm,
    "batched_matmul": _bmm,
    "rmsnorm": _rms_norm,
    "layernorm": _layer_norm,
    "batch_normalization": _batch_norm,
    "fused_activation": _fused_activation,
    "dropout": _dropout,
    "1d_conv": _conv1d,
    "interleave": _interleave,
    "dequantize_rowwise": _dequantize,
    "destindex": _index_copy,
    "kl_divergence": _kl,
    "jacobi_stencil_2d": _jacobi,
    "matrix_transpose": _transpose,
    "reverse_array": _flip,
}


def calls(row: dict[str, Any]) -> list[OpSpec] | None:
    """Ops that one measured row dispatches; None for a computation that is not described here."""
    tensors = tuple(dense(SHORT_NAMES.get(dtype, dtype), *shape) for shape, dtype in row["inputs"])
    parameters = dict(part.strip().split("=") for part in row["params"].split(","))
    if row["op"] == "top_k_selection":
        return _topk(tensors, int(parameters["k"]))
    if row["op"] == "histogramming":
        return _histogram(tensors, int(parameters["num_bins"]))
    program = _PROGRAMS.get(row["op"])
    return program(tensors) if program else None
