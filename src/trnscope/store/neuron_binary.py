"""Headers of the vendor's binary files: recognised, versions and sizes read, content mostly not decoded.

What is known of them was learnt by comparing files with the JSON that the vendor's tool made of them; nothing beyond
that is claimed.
"""

import struct
from dataclasses import dataclass
from typing import Final

_NTFF_HEADER_BYTES: Final = 128
_NEFF_HEADER_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class NtffHeader:
    """First 128 bytes of an NTFF: a version byte, then sizes of what follows."""

    version: int
    program_path: str | None
    program_uuid: str | None


def looks_like_ntff(head: bytes) -> bool:
    """A small version number, zeros up to byte 128, then a protobuf message whose first field is a text."""
    return (
        len(head) > _NTFF_HEADER_BYTES + 2
        and 1 <= head[0] <= 15
        and not any(head[24:_NTFF_HEADER_BYTES])
        and head[_NTFF_HEADER_BYTES] == 0x0A
    )


def read_ntff_header(head: bytes) -> NtffHeader:
    """The header and the first two fields behind it: the program's path and uuid."""
    path = uuid = None
    position = _NTFF_HEADER_BYTES
    for _ in range(2):
        if position + 2 > len(head):
            break
        tag, size, start = head[position], *_varint(head, position + 1)
        value = head[start : start + size]
        if tag == 0x0A:
            path = value.decode("utf-8", "replace")
        elif tag == 0x12:
            uuid = value[:16].hex()
        position = start + size
    return NtffHeader(head[0], path, uuid)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 63:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, position


@dataclass(frozen=True, slots=True)
class NeffHeader:
    """Fixed header of a NEFF."""

    package_version: int
    header_bytes: int
    data_bytes: int


def looks_like_neff(head: bytes) -> bool:
    """Package version, a header of 1024 bytes, a data size, and a gzip stream behind the header."""
    if len(head) < _NEFF_HEADER_BYTES + 2:
        return False
    version, header = struct.unpack_from("<QQ", head)
    return 1 <= version <= 16 and header == _NEFF_HEADER_BYTES and head[header : header + 2] == b"\x1f\x8b"


def read_neff_header(head: bytes) -> NeffHeader:
    """Versions and sizes."""
    return NeffHeader(*struct.unpack_from("<QQQ", head))
