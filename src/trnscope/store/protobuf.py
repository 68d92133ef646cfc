"""The few protobuf encodings that Perfetto's trace packets need."""

import struct


def varint(value: int) -> bytes:
    """A base-128 varint; negative numbers as 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field: int, value: int) -> bytes:
    """A varint field."""
    return varint(field << 3) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    """A fixed64 field."""
    return varint(field << 3 | 1) + struct.pack("<Q", value & (1 << 64) - 1)


def double(field: int, value: float) -> bytes:
    """A double field."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def block(field: int, data: bytes) -> bytes:
    """A length-delimited field: bytes or an embedded message."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def text(field: int, value: str) -> bytes:
    """A string field."""
    return block(field, value.encode("utf-8", "replace"))
