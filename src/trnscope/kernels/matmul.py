"""Matrix products: mm, bmm, addmm, baddbmm, matrix times vector; bias and scaling in the epilogue."""

from trnscope.core.isa import SCALAR, VECTOR
from trnscope.graph.spec import OpSpec, TensorSpec
from trnscope.kernels.context import COMPLEX, DOUBLE, FP8, HALF, Context
from trnscope.kernels.pointwise import base
from trnscope.kernels.stages import Lowering, MatmulStage, Operand, Pass

OPS = frozenset(
    {"mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "matmul", "linear", "_scaled_mm", "_addmm_activation"}
)


def handles(op: OpSpec) -> bool:
    """Whether this family lowers `op`."""
    return base(op) in OPS and len(op.inputs) >= 2 and _operand_positions(base(op), op) is not None


def _operand_positions(name: str, op: OpSpec) -> tuple[int, int, int | None] | None:
    """Positions of left, right and what is added."""
    if name in ("addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"):
        return (1, 2, 0) if len(op.inputs) >= 3 else None
    if name == "linear":
        return (0, 1, 2 if len(op.inputs) > 2 else None)
    return (0, 1, None)


def product_cycles(dtype: str, context: Context) -> float:
    """TensorEngine passes of one product, in those of a 2-byte type."""
    if dtype in FP8:
        return 1.0 / context.value("matmul_fp8_speedup")
    if dtype in HALF:
        return 1.0
    factor = context.value("matmul_fp32_passes")
    if dtype in DOUBLE:
        factor *= context.value("float64_passes")
    if dtype in COMPLEX:
        factor *= 4.0
    return factor


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of an op that `handles` accepted."""
    name = base(op)
    positions = _operand_positions(name, op)
    assert positions is not None
    left_at, right_at, added_at = positions
    left, right, out = op.inputs[left_at], op.inputs[right_at], op.outputs[0]
    batch, m, k, n = sizes(name, left, right, out)
    transposed = _is_transposed(left)
    extra = (_added(added_at, op.inputs[added_at], out, context),) if added_at is not None else ()
    if name == "addbmm":
        extra = ()
    copy = Pass(SCALAR, "ACTIVATE", context.value("activation_cycles"), 0.0)
    epilogue = Pass(VECTOR, "TENSOR_TENSOR", 1.0, 1.0) if extra else copy
    stage = MatmulStage(
        label=op.name,
        batch=batch,
        m=m,
        k=k,
        n=n,
        item_bytes=left.item_bytes,
        out_item_bytes=out.item_bytes,
        left=Operand(left_at, left.unique_bytes, _run(left)),
        right=Operand(right_at, right.unique_bytes, _run(right)),
        output=Operand(0, out.bytes, max(1, n * out.item_bytes)),
        extra=extra,
        passes=product_cycles(left.dtype, context),
        left_transposed=transposed,
        epilogue=(epilogue,),
    )
    known = left.dtype in HALF or left.dtype == "float32"
    return Lowering("matmul", "validated" if known else "unseen", (stage,))


def sizes(name: str, left: TensorSpec, right: TensorSpec, out: TensorSpec) -> tuple[int, int, int, int]:
    """(batch, m, k, n) from the shapes."""
    k = left.shape[-1] if left.shape else 1
    if name == "linear":
        n = right.shape[0] if right.shape else 1
        return 1, out.numel // max(1, n), k, n
    if len(right.shape) <= 1:
        return 1, left.numel // max(1, k), k, 1
    n = right.shape[-1]
    if len(left.shape) <= 1:
        return max(1, right.numel // max(1, k * n)), 1, k, n
    m = left.shape[-2]
    return out.numel // max(1, m * n) if name != "addbmm" else left.shape[0], m, k, n


def _is_transposed(tensor: TensorSpec) -> bool:
    """Whether the contraction (last dimension) is the strided one, i.e. already lies across partitions."""
    return len(tensor.shape) >= 2 and tensor.strides[-1] > 1 and tensor.strides[-2] == 1


def _run(tensor: TensorSpec) -> int:
    """Contiguous bytes of a row (or column) of a matrix."""
    if not tensor.shape:
        return tensor.item_bytes
    for n, stride in zip(tensor.shape[::-1][:2], tensor.strides[::-1][:2], strict=True):
        if stride == 1:
            return max(1, n * tensor.item_bytes)
    return tensor.item_bytes


def _added(index: int, tensor: TensorSpec, out: TensorSpec, context: Context) -> Operand:
    """A bias row is kept; a full matrix streams in with the result."""
    if tensor.unique_bytes * 4 <= out.bytes or out.numel == 0:
        return Operand(index, tensor.unique_bytes, max(1, tensor.unique_bytes), kept=True)
    return context.operand(index, tensor)
