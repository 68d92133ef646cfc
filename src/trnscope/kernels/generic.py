"""The stated estimate for an op without a kernel of its own: it reads what it is given, writes what it returns, and
runs one general pass per element on GpSimd. Counted as `generic` in every report."""

from trnscope.core.isa import GPSIMD
from trnscope.graph.spec import OpSpec
from trnscope.kernels.context import Context, widest
from trnscope.kernels.stages import Lowering, Operand, Pass, TiledStage


def lower(op: OpSpec, context: Context) -> Lowering:
    """The generic estimate; there is no op that it does not take."""
    tensors = (*op.inputs, *op.outputs)
    elements = max((t.numel for t in tensors), default=0)
    dtype = max((t.dtype for t in tensors), key=context.dtype_factor, default="float32")
    work = Pass(GPSIMD, "CUSTOM", context.value("gpsimd_cycles") * context.dtype_factor(dtype), 1.0)
    stage = TiledStage(
        label=op.name,
        elements=elements,
        item_bytes=widest(tensors),
        inputs=tuple(Operand(i, t.unique_bytes, max(1, t.unique_bytes)) for i, t in enumerate(op.inputs)),
        outputs=tuple(Operand(i, t.bytes, max(1, t.bytes)) for i, t in enumerate(op.outputs)),
        passes=(work,),
        units=elements,
    )
    return Lowering("generic", "unseen", (stage,))
