"""Convolutions as accumulating products: one per position of the kernel, over shifted views of the input.

Input channels lie on the partitions (the contraction), output channels are the stationary columns, positions stream
past. A convolution with one input channel per group has nothing to contract and runs on the VectorEngine.
"""

import math

from trnscope.graph.spec import OpSpec, TensorSpec
from trnscope.kernels.context import Context, widest
from trnscope.kernels.matmul import product_cycles
from trnscope.kernels.pointwise import base
from trnscope.kernels.stages import Lowering, MatmulStage, Operand, Stage, TiledStage

FORWARD = frozenset(
    {
        "convolution",
        "_convolution",
        "convolution_overrideable",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "mkldnn_convolution",
        "slow_conv3d",
        "_slow_conv2d_forward",
        "thnn_conv2d",
        "conv_depthwise3d",
        "_conv_depthwise2d",
        "slow_conv_dilated2d",
        "slow_conv_dilated3d",
    }
)
BACKWARD = frozenset({"convolution_backward", "convolution_backward_overrideable", "mkldnn_convolution_backward"})


def handles(op: OpSpec) -> bool:
    """Whether this family lowers `op`."""
    name = base(op)
    if name in BACKWARD:
        return len(op.inputs) >= 3 and all(len(t.shape) >= 3 for t in op.inputs[:3])
    enough = len(op.inputs) >= 2 and all(len(t.shape) >= 3 for t in op.inputs[:2])
    return name in FORWARD and enough and bool(op.outputs) and len(op.outputs[0].shape) >= 2


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of an op that `handles` accepted."""
    if base(op) in BACKWARD:
        gradient, source, weight = op.inputs[:3]
        stages = _backward(op, gradient, source, weight, context)
        return Lowering("convolution", "single-witness", stages)
    source, weight, out = op.inputs[0], op.inputs[1], op.outputs[0]
    stage = _products(op, source, weight, out, context)
    return Lowering("convolution", "validated" if isinstance(stage, MatmulStage) else "single-witness", (stage,))


def _groups(op: OpSpec) -> int:
    groups = op.scalar("groups", 1)
    return groups if isinstance(groups, int) and groups > 0 else 1


def _channel_operand(index: int, tensor: TensorSpec, context: Context) -> Operand:
    """Channels on the partitions: their distance in memory may alias in the HBM."""
    stride = tensor.strides[1] * tensor.item_bytes if len(tensor.shape) > 1 else 0
    return Operand(
        index,
        tensor.unique_bytes,
        max(1, math.prod(tensor.shape[2:]) * tensor.item_bytes),
        bandwidth_factor=context.alias_factor(stride),
    )


def _products(op: OpSpec, source: TensorSpec, weight: TensorSpec, out: TensorSpec, context: Context) -> Stage:
    groups = _groups(op)
    transposed = op.scalar("transposed") is True or "transpose" in op.base_name
    taps = max(1, math.prod(weight.shape[2:]))
    positions = (source if transposed else out).numel // max(1, (source if transposed else out).shape[1])
    out_channels = max(1, out.shape[1] // groups)
    in_channels = max(1, source.shape[1] // groups)
    bias = (
        (Operand(2, op.inputs[2].unique_bytes, max(1, op.inputs[2].unique_bytes), kept=True),)
        if len(op.inputs) > 2
        else ()
    )
    if in_channels == 1 and groups > 1:
        pair = context.tensor_tensor((source.dtype, weight.dtype), 2.0)
        return TiledStage(
            label=op.name,
            elements=out.numel,
            item_bytes=widest((source, out)),
            inputs=(
                _channel_operand(0, source, context),
                Operand(1, weight.unique_bytes, max(1, weight.unique_bytes), kept=True),
                *bias,
            ),
            outputs=(_channel_operand(0, out, context),),
            passes=(pair,) * min(taps, 64),
            units=out.numel,
        )
    return MatmulStage(
        label=op.name,
        batch=groups,
        m=out_channels,
        k=in_channels,
        n=positions,
        item_bytes=source.item_bytes,
        out_item_bytes=out.item_bytes,
        left=Operand(1, weight.unique_bytes, max(1, weight.unique_bytes)),
        right=_channel_operand(0, source, context),
        output=_channel_operand(0, out, context),
        extra=bias,
        passes=product_cycles(source.dtype, context),
        left_transposed=True,
        taps=taps,
    )


def _backward(
    op: OpSpec, gradient: TensorSpec, source: TensorSpec, weight: TensorSpec, context: Context
) -> tuple[Stage, ...]:
    """Gradient of the input (a convolution with turned weights) and of the weights (contraction over positions)."""
    groups = _groups(op)
    taps = max(1, math.prod(weight.shape[2:]))
    positions = gradient.numel // max(1, gradient.shape[1])
    out_channels = max(1, gradient.shape[1] // groups)
    in_channels = max(1, source.shape[1] // groups)
    passes = product_cycles(source.dtype, context)
    item = source.item_bytes
    mask = op.scalar("output_mask")
    wanted = mask if isinstance(mask, tuple) else (True, True, True)
    stages: list[Stage] = []
    if wanted[0]:
        stages.append(
            MatmulStage(
                label=op.name,
                batch=groups,
                m=in_channels,
                k=out_channels,
                n=positions,
                item_bytes=item,
                out_item_bytes=item,
                left=Operand(2, weight.unique_bytes, max(1, weight.unique_bytes)),
                right=_channel_operand(0, gradient, context),
                output=Operand(0, source.bytes, max(1, math.prod(source.shape[2:]) * item)),
                passes=passes,
                left_transposed=True,
                taps=taps,
            )
        )
    if len(wanted) > 1 and wanted[1]:
        stages.append(
            MatmulStage(
                label=op.name,
                batch=groups,
                m=out_channels,
                k=positions,
                n=in_channels * taps,
                item_bytes=item,
                out_item_bytes=item,
                left=_channel_operand(0, gradient, context),
                right=_channel_operand(1, source, context),
                output=Operand(1, weight.bytes, max(1, in_channels * taps * item)),
                passes=passes,
            )
        )
    return tuple(stages)
