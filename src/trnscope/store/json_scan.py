"""Strict, single-pass scanning of trace events in raw JSON bytes.

A trace of hundreds of megabytes is one array of small objects. Building Python objects for them costs more than
everything else together, so the scanner walks the bytes once and leaves, per event, where its texts lie and the exact
integer value of its times. Anything that is not strict JSON is reported with its position and left to
`trnscope.store.json_repair`.
"""

from enum import IntEnum, IntFlag
from typing import Final

import numpy as np
from numba import njit

from trnscope.store.simd import byte_at, special_mask, trailing_zeros

NULL: Final = -(2**63)
"""Marks a number that an event does not have."""

MAX_DEPTH: Final = 512
"""Deepest nesting inside one event."""


class Field(IntEnum):
    """Columns of the scanner's result, one row per event. `_S` and `_E` bound a text in the buffer."""

    START = 0
    STOP = 1
    PHASE = 2
    FLAGS = 3
    TS = 4
    DUR = 5
    NAME_S = 6
    NAME_E = 7
    CAT_S = 8
    CAT_E = 9
    PID_S = 10
    PID_E = 11
    TID_S = 12
    TID_E = 13
    ID_S = 14
    ID_E = 15
    ARGS_S = 16
    ARGS_E = 17
    SCOPE = 18
    CORRELATION = 19
    EXTERNAL_ID = 20
    DEVICE = 21
    STREAM = 22
    SEQUENCE = 23
    FORWARD_THREAD = 24


class EventFlag(IntFlag):
    """What the scanner noticed about one event."""

    TS_TEXT = 1
    """`ts` was a string holding a number."""
    DUR_TEXT = 2
    TS_BAD = 4
    """`ts` is there but is not a plain decimal number in range."""
    DUR_BAD = 8
    EXTRA = 16
    """Keys beyond those of `Field`."""
    HIGH = 32
    """Bytes outside ASCII: the text may be invalid UTF-8."""
    ROUNDED = 64
    """A time had digits beyond nanoseconds."""
    BIND_ENCLOSING = 128
    """`bp` is `e`."""
    BAD_LINK = 256
    """A correlation or external id that is not a 63-bit integer."""
    ARGS_OTHER = 512
    """`args` is not an object."""
    NO_TS = 1024


class Status(IntEnum):
    """Why the scanner returned."""

    MORE = 0
    """The buffer ends inside an event (at the returned position)."""
    END = 1
    """The array's closing bracket (at the returned position)."""
    MALFORMED = 2
    """The event starting at the returned position is not strict JSON."""
    FULL = 3
    """No room for another event."""
    STRAY = 4
    """The byte at the returned position begins no object."""


N_FIELDS: Final = len(Field)

_MORE: Final = -1
_BAD: Final = -2

_START, _STOP, _PHASE, _FLAGS, _TS, _DUR = 0, 1, 2, 3, 4, 5
_NAME, _CAT, _PID, _TID, _ID, _ARGS, _SCOPE = 6, 8, 10, 12, 14, 16, 18
_CORRELATION, _EXTERNAL, _DEVICE, _STREAM, _SEQUENCE, _FORWARD = 19, 20, 21, 22, 23, 24
_LIMIT: Final = 9_000_000_000_000_000


@njit(cache=True, nogil=True)
def _space(buf, pos, end):  # type: ignore[no-untyped-def]
    while pos < end:
        c = byte_at(buf, pos)
        if c != 32 and c != 10 and c != 13 and c != 9:
            break
        pos += 1
    return pos


@njit(cache=True, nogil=True)
def _string(buf, pos, end):  # type: ignore[no-untyped-def]
    """From an opening quote to behind the closing one; the second value is not 0 where bytes are outside ASCII."""
    pos += 1
    high = 0
    while pos < end:
        mask = special_mask(buf, pos)
        if mask == 0:
            pos += 16
            continue
        if mask & 0xFFFF == 0:
            high = 1
            pos += 16
            continue
        step = trailing_zeros(mask & 0xFFFF)
        high |= (mask >> 16) & ((1 << step) - 1)
        pos += step
        if pos >= end:
            return _MORE, high
        c = byte_at(buf, pos)
        if c == 34:
            return pos + 1, high
        if c != 92:
            return _BAD, high
        if pos + 1 >= end:
            return _MORE, high
        e = byte_at(buf, pos + 1)
        if e == 117:  # \uXXXX
            if pos + 6 > end:
                return _MORE, high
            for k in range(2, 6):
                h = byte_at(buf, pos + k)
                if not (48 <= h <= 57 or 65 <= h <= 70 or 97 <= h <= 102):
                    return _BAD, high
            pos += 6
            continue
        if not (e == 34 or e == 92 or e == 47 or e == 98 or e == 102 or e == 110 or e == 114 or e == 116):
            return _BAD, high
        pos += 2
    return _MORE, high


@njit(cache=True, nogil=True)
def _number(buf, pos, end):  # type: ignore[no-untyped-def]
    """Behind a strict JSON number."""
    if byte_at(buf, pos) == 45:
        pos += 1
        if pos >= end:
            return _MORE
    first = byte_at(buf, pos)
    if not 48 <= first <= 57:
        return _BAD
    pos += 1
    if first != 48:
        while pos < end and 48 <= byte_at(buf, pos) <= 57:
            pos += 1
    if pos < end and byte_at(buf, pos) == 46:
        pos += 1
        digits = pos
        while pos < end and 48 <= byte_at(buf, pos) <= 57:
            pos += 1
        if pos == digits:
            return _MORE if pos >= end else _BAD
    if pos < end and (byte_at(buf, pos) == 101 or byte_at(buf, pos) == 69):
        pos += 1
        if pos < end and (byte_at(buf, pos) == 43 or byte_at(buf, pos) == 45):
            pos += 1
        digits = pos
        while pos < end and 48 <= byte_at(buf, pos) <= 57:
            pos += 1
        if pos == digits:
            return _MORE if pos >= end else _BAD
    if pos >= end:
        return _MORE
    c = byte_at(buf, pos)
    if c == 44 or c == 125 or c == 93 or c == 32 or c == 10 or c == 13 or c == 9:
        return pos
    return _BAD


@njit(cache=True, nogil=True)
def _literal(buf, pos, end):  # type: ignore[no-untyped-def]
    """Behind true, false or null."""
    c = byte_at(buf, pos)
    if c == 116:
        size = 4
        word = (116, 114, 117, 101, 0)
    elif c == 102:
        size = 5
        word = (102, 97, 108, 115, 101)
    elif c == 110:
        size = 4
        word = (110, 117, 108, 108, 0)
    else:
        return _BAD
    if pos + size > end:
        return _MORE
    for k in range(size):
        if byte_at(buf, pos + k) != word[k]:
            return _BAD
    return pos + size


@njit(cache=True, nogil=True)
def _nested(buf, pos, end, stack):  # type: ignore[no-untyped-def]
    """Behind any strict JSON value starting at pos; the second value tells of bytes outside ASCII."""
    depth = 0
    high = 0
    while True:
        # a value begins here
        pos = _space(buf, pos, end)
        if pos >= end:
            return _MORE, high
        c = byte_at(buf, pos)
        opened = False
        if c == 34:
            pos, h = _string(buf, pos, end)
            high |= h
        elif c == 123 or c == 91:
            if depth >= stack.shape[0]:
                return _BAD, high
            stack[depth] = c
            depth += 1
            pos = _space(buf, pos + 1, end)
            if pos >= end:
                return _MORE, high
            if byte_at(buf, pos) == c + 2:  # empty container
                depth -= 1
                pos += 1
            else:
                opened = True
        elif c == 45 or 48 <= c <= 57:
            pos = _number(buf, pos, end)
        else:
            pos = _literal(buf, pos, end)
        if pos < 0:
            return pos, high
        if not opened:
            # a value ended: close containers, find the comma
            while True:
                if depth == 0:
                    return pos, high
                pos = _space(buf, pos, end)
                if pos >= end:
                    return _MORE, high
                c = byte_at(buf, pos)
                if c == 44:
                    pos = _space(buf, pos + 1, end)
                    if pos >= end:
                        return _MORE, high
                    break
                if c != stack[depth - 1] + 2:
                    return _BAD, high
                depth -= 1
                pos += 1
        if stack[depth - 1] == 123:
            if byte_at(buf, pos) != 34:
                return _BAD, high
            pos, h = _string(buf, pos, end)
            high |= h
            if pos < 0:
                return pos, high
            pos = _space(buf, pos, end)
            if pos >= end:
                return _MORE, high
            if byte_at(buf, pos) != 58:
                return _BAD, high
            pos += 1


@njit(cache=True, nogil=True)
def _value(buf, pos, end, stack):  # type: ignore[no-untyped-def]
    """`_nested`, with scalars, the common case, on a short path."""
    c = byte_at(buf, pos)
    high = 0
    if c == 34:
        pos, high = _string(buf, pos, end)
    elif c == 45 or 48 <= c <= 57:
        pos = _number(buf, pos, end)
    else:
        pos, high = _nested(buf, pos, end, stack)
    return pos, high


@njit(cache=True, nogil=True)
def _micros(buf, pos, stop):  # type: ignore[no-untyped-def]
    """The decimal microseconds in buf[pos:stop] as nanoseconds: (value, ok, rounded).

    Half is rounded away from zero."""
    negative = False
    if pos < stop and (byte_at(buf, pos) == 45 or byte_at(buf, pos) == 43):
        negative = byte_at(buf, pos) == 45
        pos += 1
    value = np.int64(0)
    digits = 0
    while pos < stop and 48 <= byte_at(buf, pos) <= 57:
        value = value * 10 + np.int64(byte_at(buf, pos) - 48)
        if value > _LIMIT:
            return np.int64(0), False, False
        pos += 1
        digits += 1
    value *= 1000
    rounded = False
    if pos < stop and byte_at(buf, pos) == 46:
        pos += 1
        scale = np.int64(100)
        places = 0
        while pos < stop and 48 <= byte_at(buf, pos) <= 57:
            d = np.int64(byte_at(buf, pos) - 48)
            if places < 3:
                value += d * scale
                scale //= 10
            else:
                if places == 3 and d >= 5:
                    value += 1
                if d != 0:
                    rounded = True
            places += 1
            pos += 1
            digits += 1
    if pos != stop or digits == 0:
        return np.int64(0), False, False
    return (-value if negative else value), True, rounded


@njit(cache=True, nogil=True)
def _integer(buf, pos, stop):  # type: ignore[no-untyped-def]
    """The decimal integer in buf[pos:stop], quotes allowed: (value, ok)."""
    if stop - pos >= 2 and byte_at(buf, pos) == 34:
        pos += 1
        stop -= 1
    negative = False
    if pos < stop and byte_at(buf, pos) == 45:
        negative = True
        pos += 1
    if stop - pos < 1 or stop - pos > 18:
        return np.int64(0), False
    value = np.int64(0)
    while pos < stop:
        d = byte_at(buf, pos)
        if not 48 <= d <= 57:
            return np.int64(0), False
        value = value * 10 + np.int64(d - 48)
        pos += 1
    return (-value if negative else value), True


@njit(cache=True, nogil=True)
def _equals(buf, start, word):  # type: ignore[no-untyped-def]
    for k in range(len(word)):  # noqa: SIM110 (numba compiles no generators)
        if byte_at(buf, start + k) != word[k]:
            return False
    return True


_W_CORRELATION = np.frombuffer(b"correlation", np.uint8)
_W_EXTERNAL = np.frombuffer(b"xternal id", np.uint8)
_W_DEVICE = np.frombuffer(b"device", np.uint8)
_W_STREAM = np.frombuffer(b"stream", np.uint8)
_W_SEQUENCE = np.frombuffer(b"Sequence number", np.uint8)
_W_FORWARD = np.frombuffer(b"Fwd thread id", np.uint8)
_W_NAME = np.frombuffer(b"name", np.uint8)
_W_ARGS = np.frombuffer(b"args", np.uint8)


@njit(cache=True, nogil=True)
def _args(buf, pos, end, row, stack):  # type: ignore[no-untyped-def]
    """Behind an args object; the known keys of its first level go to the row."""
    high = 0
    pos = _space(buf, pos + 1, end)
    if pos >= end:
        return _MORE, high
    if byte_at(buf, pos) == 125:
        return pos + 1, high
    while True:
        if byte_at(buf, pos) != 34:
            return _BAD, high
        key = pos + 1
        pos, h = _string(buf, pos, end)
        high |= h
        if pos < 0:
            return pos, high
        size = pos - 1 - key
        pos = _space(buf, pos, end)
        if pos >= end:
            return _MORE, high
        if byte_at(buf, pos) != 58:
            return _BAD, high
        pos = _space(buf, pos + 1, end)
        if pos >= end:
            return _MORE, high
        field = -1
        if size == 11:
            if byte_at(buf, key) == 99 and _equals(buf, key, _W_CORRELATION):
                field = _CORRELATION
            elif (byte_at(buf, key) == 69 or byte_at(buf, key) == 101) and _equals(buf, key + 1, _W_EXTERNAL):
                field = _EXTERNAL
        elif size == 6:
            if byte_at(buf, key) == 100 and _equals(buf, key, _W_DEVICE):
                field = _DEVICE
            elif byte_at(buf, key) == 115 and _equals(buf, key, _W_STREAM):
                field = _STREAM
        elif size == 15:
            if byte_at(buf, key) == 83 and _equals(buf, key, _W_SEQUENCE):
                field = _SEQUENCE
        elif size == 13 and byte_at(buf, key) == 70 and _equals(buf, key, _W_FORWARD):
            field = _FORWARD
        value = pos
        pos, h = _value(buf, pos, end, stack)
        high |= h
        if pos < 0:
            return pos, high
        if field >= 0:
            number, ok = _integer(buf, value, pos)
            if ok:
                row[field] = number
            elif field in (_CORRELATION, _EXTERNAL) and byte_at(buf, value) != 110:
                row[_FLAGS] |= 256
        pos = _space(buf, pos, end)
        if pos >= end:
            return _MORE, high
        if byte_at(buf, pos) == 44:
            pos = _space(buf, pos + 1, end)
            if pos >= end:
                return _MORE, high
        elif byte_at(buf, pos) == 125:
            return pos + 1, high
        else:
            return _BAD, high


@njit(cache=True, nogil=True)
def _event(buf, pos, end, row, stack):  # type: ignore[no-untyped-def]
    """One event object from its opening brace to behind the closing one."""
    for k in range(row.shape[0]):
        row[k] = -1
    row[_START] = pos
    row[_PHASE] = 0
    row[_FLAGS] = 1024
    row[_TS] = NULL
    row[_DUR] = NULL
    row[_SCOPE] = 0
    for k in range(_CORRELATION, _FORWARD + 1):
        row[k] = NULL
    high = 0
    pos = _space(buf, pos + 1, end)
    if pos >= end:
        return _MORE
    if byte_at(buf, pos) == 125:
        row[_STOP] = pos + 1
        return pos + 1
    while True:
        if byte_at(buf, pos) != 34:
            return _BAD
        key = pos + 1
        pos, h = _string(buf, pos, end)
        high |= h
        if pos < 0:
            return pos
        size = pos - 1 - key
        pos = _space(buf, pos, end)
        if pos >= end:
            return _MORE
        if byte_at(buf, pos) != 58:
            return _BAD
        pos = _space(buf, pos + 1, end)
        if pos >= end:
            return _MORE
        value = pos
        c = byte_at(buf, pos)
        if size == 4 and c == 123 and _equals(buf, key, _W_ARGS):
            pos, h = _args(buf, pos, end, row, stack)
            high |= h
            if pos < 0:
                return pos
            row[_ARGS] = value
            row[_ARGS + 1] = pos
        else:
            pos, h = _value(buf, pos, end, stack)
            high |= h
            if pos < 0:
                return pos
            a = byte_at(buf, key)
            b = byte_at(buf, key + 1)
            d = byte_at(buf, key + 2)
            if size == 2 and a == 116 and b == 115:  # ts
                ok = False
                row[_FLAGS] &= ~1024
                if c == 34:
                    number, ok, rounded = _micros(buf, value + 1, pos - 1)
                    if ok:
                        row[_FLAGS] |= 1
                else:
                    number, ok, rounded = _micros(buf, value, pos)
                if ok:
                    row[_TS] = number
                    if rounded:
                        row[_FLAGS] |= 64
                else:
                    row[_FLAGS] |= 4
            elif size == 3 and a == 100 and b == 117 and d == 114:  # dur
                ok = False
                if c == 34:
                    number, ok, rounded = _micros(buf, value + 1, pos - 1)
                    if ok:
                        row[_FLAGS] |= 2
                else:
                    number, ok, rounded = _micros(buf, value, pos)
                if ok:
                    row[_DUR] = number
                    if rounded:
                        row[_FLAGS] |= 64
                else:
                    row[_FLAGS] |= 8
            elif size == 2 and a == 112 and b == 104 and c == 34 and pos - value == 3:  # ph
                row[_PHASE] = byte_at(buf, value + 1)
            elif size == 4 and _equals(buf, key, _W_NAME):
                row[_NAME] = value
                row[_NAME + 1] = pos
            elif size == 3 and a == 99 and b == 97 and d == 116:  # cat
                row[_CAT] = value
                row[_CAT + 1] = pos
            elif size == 3 and a == 112 and b == 105 and d == 100:  # pid
                row[_PID] = value
                row[_PID + 1] = pos
            elif size == 3 and a == 116 and b == 105 and d == 100:  # tid
                row[_TID] = value
                row[_TID + 1] = pos
            elif size == 2 and a == 105 and b == 100:  # id
                row[_ID] = value
                row[_ID + 1] = pos
            elif size == 2 and a == 98 and b == 112 and c == 34:  # bp
                if pos - value == 3 and byte_at(buf, value + 1) == 101:
                    row[_FLAGS] |= 128
            elif size == 1 and a == 115 and c == 34 and pos - value == 3:  # s
                row[_SCOPE] = byte_at(buf, value + 1)
            elif size == 4 and _equals(buf, key, _W_ARGS):
                row[_FLAGS] |= 512
                row[_ARGS] = value
                row[_ARGS + 1] = pos
            else:
                row[_FLAGS] |= 16
        pos = _space(buf, pos, end)
        if pos >= end:
            return _MORE
        if byte_at(buf, pos) == 44:
            pos = _space(buf, pos + 1, end)
            if pos >= end:
                return _MORE
        elif byte_at(buf, pos) == 125:
            row[_STOP] = pos + 1
            if high != 0:
                row[_FLAGS] |= 32
            return pos + 1
        else:
            return _BAD


@njit(cache=True, nogil=True)
def scan_events(buf, pos, end, rows, stack):  # type: ignore[no-untyped-def]
    """Scan array elements from pos on.

    `buf` is uint8, `rows` int64 of shape (capacity, N_FIELDS), `stack` uint8 of length MAX_DEPTH. Commas between
    elements may be missing or doubled. Returns (events written, position, `Status`).
    """
    count = 0
    while True:
        while pos < end and (
            byte_at(buf, pos) == 44
            or byte_at(buf, pos) == 32
            or byte_at(buf, pos) == 10
            or byte_at(buf, pos) == 13
            or byte_at(buf, pos) == 9
        ):
            pos += 1
        if pos >= end:
            return count, pos, 0
        if byte_at(buf, pos) == 93:
            return count, pos, 1
        if byte_at(buf, pos) != 123:
            return count, pos, 4
        if count >= rows.shape[0]:
            return count, pos, 3
        after = _event(buf, pos, end, rows[count], stack)
        if after == _MORE:
            return count, pos, 0
        if after == _BAD:
            return count, pos, 2
        count += 1
        pos = after


@njit(cache=True, nogil=True)
def skip_value(buf, pos, end, state):  # type: ignore[no-untyped-def]
    """Resume skipping any value, tolerant of everything but brackets and quotes.

    `state` (int64[3]: depth, in string, started) carries over between buffers. Returns the position behind the value,
    or -1 when the buffer ends first.
    """
    depth, quoted, started = state[0], state[1], state[2]
    while pos < end:
        c = byte_at(buf, pos)
        if quoted == 1:
            if c == 92:
                quoted = 2
            elif c == 34:
                quoted = 0
                if depth == 0:
                    return pos + 1
        elif quoted == 2:
            quoted = 1
        elif c == 34:
            quoted = 1
            started = 1
        elif c == 123 or c == 91:
            depth += 1
            started = 1
        elif c == 125 or c == 93:
            if depth == 0:
                return pos
            depth -= 1
            if depth == 0:
                return pos + 1
        elif c == 44 and depth == 0:
            return pos
        elif c != 32 and c != 10 and c != 13 and c != 9:
            started = 1
        pos += 1
    state[0], state[1], state[2] = depth, quoted, started
    return -1
