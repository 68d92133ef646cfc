"""Attention in tiles: scores of a block of queries against all keys, exponentials on the way out of PSUM, then the
product with the values. Scores and probabilities stay on the core. Causal attention skips the blocks above the
diagonal: half of the products when queries and keys are equally many.
"""

from trnscope.core.isa import SCALAR, VECTOR
from trnscope.graph.spec import OpSpec, TensorSpec
from trnscope.kernels.context import Context
from trnscope.kernels.matmul import product_cycles
from trnscope.kernels.pointwise import base
from trnscope.kernels.stages import Lowering, MatmulStage, Operand, Pass, Stage

FORWARD = frozenset(
    {
        "scaled_dot_product_attention",
        "_scaled_dot_product_attention_math",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_fused_attention_overrideable",
        "_flash_attention_forward",
        "_efficient_attention_forward",
    }
)
BACKWARD = frozenset(
    {
        "_scaled_dot_product_flash_attention_backward",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_scaled_dot_product_efficient_attention_backward",
        "_scaled_dot_product_fused_attention_overrideable_backward",
    }
)

SCORES = 1_000_000
"""Number of the intermediate tensor that the stages hand on within one op."""


def handles(op: OpSpec) -> bool:
    """Whether this family lowers `op`."""
    name = base(op)
    if name in BACKWARD:
        return len(op.inputs) >= 4 and all(len(t.shape) >= 3 for t in op.inputs[:4])
    return name in FORWARD and len(op.inputs) >= 3 and all(len(t.shape) >= 3 for t in op.inputs[:3])


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of an op that `handles` accepted."""
    if base(op) in BACKWARD:
        return Lowering("attention", "unseen", _backward(op, context))
    query, key, value = op.inputs[:3]
    mask = op.inputs[3] if len(op.inputs) > 3 and len(op.inputs[3].shape) >= 2 else None
    stages = _forward(op, query, key, value, mask, context)
    return Lowering("attention", "single-witness", stages)


def _keys(op: OpSpec, query: TensorSpec, key: TensorSpec) -> int:
    keys = key.shape[-2]
    causal = op.scalar("is_causal") is True
    return max(1, (keys + 1) // 2) if causal and query.shape[-2] == keys else keys


def _row(tensor: TensorSpec) -> int:
    return max(1, tensor.shape[-1] * tensor.item_bytes)


def _operand(index: int, tensor: TensorSpec) -> Operand:
    return Operand(index, tensor.unique_bytes, _row(tensor))


def _forward(
    op: OpSpec, query: TensorSpec, key: TensorSpec, value: TensorSpec, mask: TensorSpec | None, context: Context
) -> tuple[Stage, ...]:
    heads = query.numel // max(1, query.shape[-2] * query.shape[-1])
    keys = _keys(op, query, key)
    out = op.outputs[0] if op.outputs else query
    passes = product_cycles(query.dtype, context)
    held = Operand(SCORES, 0, 1, resident=True)
    extra = (Operand(3, mask.unique_bytes, _row(mask)),) if mask is not None else ()
    softmax = (
        Pass(VECTOR, "TENSOR_REDUCE", context.value("tensor_reduce_cycles"), 1.0),
        Pass(SCALAR, "ACTIVATE", context.value("activation_cycles"), 2.0),
        *((Pass(VECTOR, "TENSOR_TENSOR", 1.0, 1.0),) if mask is not None else ()),
    )
    scores = MatmulStage(
        label=op.name,
        batch=heads,
        m=query.shape[-2],
        k=query.shape[-1],
        n=keys,
        item_bytes=query.item_bytes,
        out_item_bytes=query.item_bytes,
        left=_operand(0, query),
        right=_operand(1, key),
        output=held,
        extra=extra,
        passes=passes,
        epilogue=softmax,
    )
    weighted = MatmulStage(
        label=op.name,
        batch=heads,
        m=query.shape[-2],
        k=keys,
        n=value.shape[-1],
        item_bytes=query.item_bytes,
        out_item_bytes=out.item_bytes,
        left=held,
        right=_operand(2, value),
        output=_operand(0, out),
        passes=passes,
    )
    return (scores, weighted)


def _backward(op: OpSpec, context: Context) -> tuple[Stage, ...]:
    """Scores again, then the gradients of values, probabilities, queries and keys: five products."""
    gradient, query, key, value = op.inputs[:4]
    heads = query.numel // max(1, query.shape[-2] * query.shape[-1])
    rows, depth, keys = query.shape[-2], query.shape[-1], _keys(op, query, key)
    passes = product_cycles(query.dtype, context)
    item = query.item_bytes
    held = Operand(SCORES, 0, 1, resident=True)
    exponential = (
        Pass(SCALAR, "ACTIVATE", context.value("activation_cycles"), 2.0),
        Pass(VECTOR, "TENSOR_TENSOR", context.value("tensor_tensor_half_cycles"), 1.0),
    )

    def product(
        m: int, k: int, n: int, left: Operand, right: Operand, output: Operand, epilogue: tuple[Pass, ...] | None = None
    ) -> MatmulStage:
        stage = MatmulStage(op.name, heads, m, k, n, item, item, left, right, output, passes=passes)
        return stage if epilogue is None else MatmulStage(
            op.name, heads, m, k, n, item, item, left, right, output, passes=passes, epilogue=epilogue
        )  # fmt: skip

    outputs = [_operand(i, t) for i, t in enumerate(op.outputs)][:3]
    while len(outputs) < 3:
        outputs.append(held)
    return (
        product(rows, depth, keys, _operand(1, query), _operand(2, key), held, exponential),
        product(keys, rows, value.shape[-1], held, _operand(0, gradient), outputs[2]),
        product(rows, value.shape[-1], keys, _operand(0, gradient), _operand(3, value), held, exponential),
        product(rows, keys, depth, held, _operand(2, key), outputs[0]),
        product(keys, rows, depth, held, _operand(1, query), outputs[1]),
    )
