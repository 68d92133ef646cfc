"""Bytes of a trace file, whatever it is packed in, in bounded memory."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from trnscope.errors import TrnscopeError

DEFAULT_LIMIT_BYTES: Final = 1 << 40
"""Most decompressed bytes that are read of one file."""

MAX_RATIO: Final = 1200
"""Most decompressed bytes per stored byte beyond the first 64 MiB. Deflate cannot exceed 1032; traces reach 40."""

_FREE_BYTES: Final = 64 << 20
_PIECE: Final = 1 << 20


class ByteReader(Protocol):
    """What the readers need of a file."""

    damage: str | None
    """Why reading stopped before the end, if it did: a kind of `quality.ISSUES`."""

    def read(self, size: int) -> bytes:
        """At most `size` bytes, empty at the end. Damage ends the data and is told in `damage`."""
        ...


class _Plain:
    def __init__(self, file: io.BufferedReader, limit: int) -> None:
        self._file = file
        self._left = limit
        self.damage: str | None = None

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        if not self._left and self.damage is None and self._file.read(1):
            self.damage = "size-limit"
        return data


class _Packed:
    """Applies a decompressor piece by piece; `unpack` may raise at damage."""

    def __init__(self, file: io.BufferedIOBase, stored_bytes: int, limit: int) -> None:
        self._file = file
        self._limit = min(limit, max(_FREE_BYTES, stored_bytes * MAX_RATIO))
        self._given = 0
        self.damage: str | None = None

    def _unpack(self, size: int) -> bytes:
        raise NotImplementedError

    def read(self, size: int) -> bytes:
        if self.damage is not None:
            return b""
        if self._given >= self._limit:
            self.damage = "size-limit"
            return b""
        try:
            data = self._unpack(min(size, self._limit - self._given))
        except (zlib.error, EOFError, OSError, pa.ArrowException, zipfile.BadZipFile):
            self.damage = "broken-container"
            return b""
        self._given += len(data)
        return data


class _Gzip(_Packed):
    """zlib directly: the standard gzip module checks and copies more than is needed, and raises instead of giving
    what was readable. Several members one behind the other are read as one."""

    def __init__(self, file: io.BufferedIOBase, stored_bytes: int, limit: int) -> None:
        super().__init__(file, stored_bytes, limit)
        self._engine = zlib.decompressobj(31)
        self._input = b""
        self._started = False

    def _unpack(self, size: int) -> bytes:
        while True:
            if self._engine.eof:
                self._input = self._engine.unused_data or self._file.read(_PIECE)
                if not self._input.strip(b"\0"):
                    return b""
                self._engine = zlib.decompressobj(31)
            if not self._input:
                self._input = self._file.read(_PIECE)
                if not self._input:
                    self.damage = "broken-container"
                    return self._engine.flush()
            try:
                data = self._engine.decompress(self._input, size)
            except zlib.error:
                if self._started and self._input[:2] != b"\x1f\x8b":
                    self.damage = "broken-container"
                    return b""
                raise
            self._input = self._engine.unconsumed_tail
            if data:
                self._started = True
                return data


class _Stream(_Packed):
    """A container that has a file-like reader of its own."""

    def __init__(self, stream: object, stored_bytes: int, limit: int) -> None:
        self._stream = stream
        super().__init__(io.BytesIO(), stored_bytes, limit)

    def _unpack(self, size: int) -> bytes:
        return bytes(self._stream.read(size))  # type: ignore[attr-defined]


def container_of(head: bytes) -> str:
    """`gzip`, `zstd`, `zip` or `plain`, from the first bytes."""
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if head[:4] == b"\x28\xb5\x2f\xfd":
        return "zstd"
    if head[:4] == b"PK\x03\x04":
        return "zip"
    return "plain"


@contextmanager
def open_bytes(path: Path, limit: int = DEFAULT_LIMIT_BYTES) -> Iterator[ByteReader]:
    """The decompressed bytes of a file, chosen by its first bytes.

    A zip archive stands for its only file (directories aside). Raises TrnscopeError for a file that cannot be
    opened or an archive that holds several.
    """
    try:
        stored = path.stat().st_size
        file = path.open("rb")
    except OSError as error:
        raise TrnscopeError(f"{path}: cannot be read: {error.strerror}", "check the path and its permissions") from None
    with file:
        head = file.read(4)
        file.seek(0)
        match container_of(head):
            case "gzip":
                yield _Gzip(file, stored, limit)
            case "zstd":
                with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as stream:
                    yield _Stream(stream, stored, limit)
            case "zip":
                try:
                    with zipfile.ZipFile(file) as archive:
                        members = [member for member in archive.infolist() if not member.is_dir()]
                        if len(members) != 1:
                            raise TrnscopeError(
                                f"{path}: the archive holds {len(members)} files", "unpack it and give the directory"
                            )
                        with archive.open(members[0]) as member_file:
                            yield _Stream(member_file, stored, limit)
                except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
                    raise TrnscopeError(f"{path}: unreadable zip archive: {error}", "unpack it by hand") from None
            case _:
                yield _Plain(file, limit)
