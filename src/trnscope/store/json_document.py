"""Walking a JSON document of any size with a bounded buffer."""

import json
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

from trnscope.errors import TrnscopeError
from trnscope.store.byte_source import ByteReader
from trnscope.store.json_repair import repair
from trnscope.store.json_scan import skip_value
from trnscope.store.quality import Quality
from trnscope.store.simd import PADDING

WINDOW_BYTES: Final = 8 << 20
MAX_ELEMENT_BYTES: Final = 64 << 20
"""Largest single event or top-level value that is read."""

_SPACE: Final = b" \t\r\n"


class JsonDocument:
    """A window over the text of a document: `buffer[position:end]` is read but not consumed.

    The window moves by `fill`, which invalidates positions but not the content from `position` on.
    """

    def __init__(self, reader: ByteReader, quality: Quality, window_bytes: int = WINDOW_BYTES) -> None:
        self._reader = reader
        self._quality = quality
        self._window = window_bytes
        self.buffer: npt.NDArray[np.uint8] = np.zeros(window_bytes + PADDING, np.uint8)
        self.position = 0
        self.end = 0
        self.base = 0
        """Offset in the decompressed file of `buffer[0]`."""
        self.exhausted = False
        self._truncated = False

    def report_truncation(self) -> None:
        """The document ends too early; counted once, wherever it is noticed."""
        if not self._truncated:
            self._truncated = True
            self._quality.add("truncated", f"byte {self.base + self.end}")

    @property
    def offset(self) -> int:
        """Offset in the decompressed file of the position."""
        return self.base + self.position

    def fill(self) -> bool:
        """Drop what is consumed and read on; grows when nothing is consumed. False when nothing was added."""
        kept = self.end - self.position
        capacity = len(self.buffer) - PADDING
        if kept >= capacity:
            if capacity >= MAX_ELEMENT_BYTES:
                return False
            grown = np.zeros(capacity * 2 + PADDING, np.uint8)
            grown[:kept] = self.buffer[self.position : self.end]
            self.buffer = grown
            capacity *= 2
        elif capacity > self._window and kept < self._window // 2:
            shrunk = np.zeros(self._window + PADDING, np.uint8)
            shrunk[:kept] = self.buffer[self.position : self.end]
            self.buffer = shrunk
            capacity = self._window
        elif self.position:
            self.buffer[:kept] = self.buffer[self.position : self.end].copy()
        self.base += self.position
        self.position = 0
        self.end = kept
        while self.end < capacity and not self.exhausted:
            data = self._reader.read(min(capacity - self.end, 1 << 20))
            if not data:
                self.exhausted = True
                if self._reader.damage is not None:
                    self._quality.add(self._reader.damage, f"byte {self.base + self.end}")
                break
            self.buffer[self.end : self.end + len(data)] = np.frombuffer(data, np.uint8)
            self.end += len(data)
        return self.end > kept

    def text(self, start: int, stop: int) -> bytes:
        """The window's bytes between two positions."""
        return self.buffer[start:stop].tobytes()

    def peek(self) -> int:
        """The next byte that is no white space, which is consumed; -1 at the end."""
        while True:
            while self.position < self.end:
                byte = int(self.buffer[self.position])
                if byte not in _SPACE:
                    return byte
                self.position += 1
            if not self.fill():
                return -1

    def open(self) -> str:
        """Consume the document's opening bracket and tell which: `{` or `[`."""
        self.fill()
        if self.text(0, 3) == b"\xef\xbb\xbf":
            self.position = 3
        byte = self.peek()
        if byte not in b"{[":
            raise TrnscopeError(
                f"byte {self.offset}: a JSON document begins with {{ or [, not with {chr(byte)!r}"
                if byte >= 0
                else "the file is empty",
                "give the trace as it was written",
            )
        self.position += 1
        return chr(byte)

    def next_key(self) -> str | None:
        """The next key of the object the position is in, up to behind its colon; None at the object's end."""
        stray = -1
        while True:
            byte = self.peek()
            if byte == ord("}"):
                self.position += 1
                return None
            if byte < 0:
                self.report_truncation()
                return None
            if byte == ord('"'):
                start_offset = self.offset
                key = self.capture(stop_at_colon=True)
                if self.peek() == ord(":"):
                    self.position += 1
                    return _text_of(key)
                self._quality.add("stray-content", f"byte {start_offset}: {key[:60]!r}")
                continue
            if byte != ord(",") and stray < 0:
                stray = self.offset
                self._quality.add("stray-content", f"byte {stray}: {chr(byte)!r}")
            self.position += 1

    def capture(self, *, stop_at_colon: bool = False) -> bytes:
        """The text of the value at the position, which is consumed. Raises TrnscopeError when it is too large."""
        state = np.zeros(3, np.int64)
        scanned = self.position
        self.peek()
        scanned = self.position
        while True:
            stop = int(skip_value(self.buffer, scanned, self.end, state))
            if stop >= 0:
                text = self.text(self.position, stop)
                self.position = stop
                return text
            consumed = self.end - self.position
            if not self.fill():
                if consumed >= MAX_ELEMENT_BYTES:
                    raise TrnscopeError(
                        f"byte {self.offset}: a single value is larger than {MAX_ELEMENT_BYTES} bytes",
                        "the file is not a trace, or is damaged there",
                    )
                if not stop_at_colon:
                    self.report_truncation()
                text = self.text(self.position, self.end)
                self.position = self.end
                return text
            scanned = self.position + consumed

    def spool(self, out: BinaryIO) -> int:
        """Write the value at the position to a file, consuming it; returns its length in bytes."""
        state = np.zeros(3, np.int64)
        self.peek()
        written = 0
        while True:
            stop = int(skip_value(self.buffer, self.position, self.end, state))
            upto = stop if stop >= 0 else self.end
            out.write(self.buffer[self.position : upto].data)
            written += upto - self.position
            self.position = upto
            if stop >= 0:
                return written
            if not self.fill():
                self.report_truncation()
                return written


def _text_of(literal: bytes) -> str:
    try:
        return str(json.loads(literal))
    except ValueError:
        return literal.decode("utf-8", "replace").strip('"')


def metadata_value(raw: bytes, quality: Quality, where: str) -> tuple[str, object]:
    """A top-level value as valid JSON text and as an object, mended where needed."""
    text = raw.decode("utf-8", "replace").strip()
    try:
        return text, json.loads(text)
    except (ValueError, RecursionError):
        quality.add("unreadable-metadata", f"{where}: {text[:60]}")
    mended = repair(text)
    if mended is not None:
        return mended, json.loads(mended)
    return json.dumps(text), text
