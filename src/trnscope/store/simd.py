"""Raw loads for byte scanners compiled by numba.

Numba's own indexing of a byte array normalises negative indices and widens late, which costs a scanner more than its
logic does. These intrinsics load straight from the array's memory: **the caller guarantees the bounds**, and buffers
must have at least `PADDING` readable bytes behind their used part.
"""

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

PADDING: Final = 16


def _address(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [position])


@intrinsic  # type: ignore[untyped-decorator]
def byte_at(_typing: Any, array: Any, position: Any) -> Any:  # noqa: ARG001
    """`array[position]` of a uint8 array as int64, unchecked."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _address(context, builder, signature.args[0], args[0], args[1])
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.int64(array, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def special_mask(_typing: Any, array: Any, position: Any) -> Any:  # noqa: ARG001
    """16 bytes from position on: bits 0-15 mark a quote, a backslash or a control character, bits 16-31 a byte
    outside ASCII."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 16)
        pointer = _address(context, builder, signature.args[0], args[0], args[1])
        load = builder.load(builder.bitcast(pointer, vector.as_pointer()))
        load.align = 1

        def splat(value: int) -> Any:
            return ir.Constant(vector, [value] * 16)

        special = builder.or_(
            builder.or_(
                builder.icmp_unsigned("==", load, splat(34)),
                builder.icmp_unsigned("==", load, splat(92)),
            ),
            builder.icmp_unsigned("<", load, splat(32)),
        )
        high = builder.icmp_unsigned(">=", load, splat(128))
        word = ir.IntType(16)
        wide = ir.IntType(64)
        low_bits = builder.zext(builder.bitcast(special, word), wide)
        high_bits = builder.zext(builder.bitcast(high, word), wide)
        return builder.or_(low_bits, builder.shl(high_bits, ir.Constant(wide, 16)))

    return types.int64(array, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def word_at(_typing: Any, array: Any, position: Any) -> Any:  # noqa: ARG001
    """Eight bytes from position on as a little-endian int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _address(context, builder, signature.args[0], args[0], args[1])
        load = builder.load(builder.bitcast(pointer, ir.IntType(64).as_pointer()))
        load.align = 1
        return load

    return types.int64(array, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(_typing: Any, target: Any, at: Any, source: Any, start: Any, size: Any) -> Any:  # noqa: ARG001
    """`target[at : at + size] = source[start : start + size]` for uint8 arrays, unchecked."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into = _address(context, builder, signature.args[0], args[0], args[1])
        origin = _address(context, builder, signature.args[2], args[2], args[3])
        cgutils.raw_memcpy(builder, into, origin, args[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def trailing_zeros(_typing: Any, value: Any) -> Any:  # noqa: ARG001
    """Index of the lowest set bit of a non-zero int64."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen
