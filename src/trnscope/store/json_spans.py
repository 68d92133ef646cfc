"""Texts by position: equal ones numbered, many gathered into one column."""

import numpy as np
from numba import njit

from trnscope.store.simd import byte_at, copy_bytes, word_at


@njit(cache=True, nogil=True)
def _same(buf, one, other, size):  # type: ignore[no-untyped-def]
    for k in range(0, size - 7, 8):
        if word_at(buf, one + k) != word_at(buf, other + k):
            return False
    for k in range(size & ~7, size):  # noqa: SIM110 (numba compiles no generators)
        if byte_at(buf, one + k) != byte_at(buf, other + k):
            return False
    return True


@njit(cache=True, nogil=True)
def intern_spans(buf, starts, stops, ids, table):  # type: ignore[no-untyped-def]
    """Number equal texts: ids[i] becomes the rank of first appearance of buf[starts[i]:stops[i]], -1 for none.

    `table` is int64, its length a power of two above twice the number of spans, filled with -1. Returns the rows of
    first appearance.
    """
    n = starts.shape[0]
    mask = table.shape[0] - 1
    first = np.empty(n, np.int64)
    count = 0
    # neighbours often repeat: processes and threads nearly always
    previous = -1
    for i in range(n):
        s = starts[i]
        if s < 0:
            ids[i] = -1
            continue
        size = stops[i] - s
        if previous >= 0 and size == stops[previous] - starts[previous] and _same(buf, starts[previous], s, size):
            ids[i] = ids[previous]
            continue
        previous = i
        h = np.uint64(14695981039346656037) ^ np.uint64(size)
        for k in range(0, size - 7, 8):
            h = (h ^ np.uint64(word_at(buf, s + k))) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(32)
        rest = size & 7
        if rest:
            tail = np.uint64(word_at(buf, stops[i] - rest)) & ((np.uint64(1) << np.uint64(8 * rest)) - np.uint64(1))
            h = (h ^ tail) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(32)
        slot = np.int64((h ^ (h >> np.uint64(29))) & np.uint64(mask))
        while True:
            entry = table[slot]
            if entry < 0:
                table[slot] = count
                ids[i] = count
                first[count] = i
                count += 1
                break
            o = starts[first[entry]]
            if stops[first[entry]] - o == size and _same(buf, o, s, size):
                ids[i] = entry
                break
            slot = (slot + 1) & mask
    return first[:count]


@njit(cache=True, nogil=True)
def gather_spans(buf, starts, stops):  # type: ignore[no-untyped-def]
    """Texts of the spans one behind the other: (int32 offsets, bytes); a missing span is empty."""
    n = starts.shape[0]
    offsets = np.empty(n + 1, np.int32)
    total = 0
    for i in range(n):
        offsets[i] = total
        if starts[i] >= 0:
            total += stops[i] - starts[i]
    offsets[n] = total
    data = np.empty(total, np.uint8)
    for i in range(n):
        if starts[i] >= 0:
            copy_bytes(data, np.int64(offsets[i]), buf, starts[i], stops[i] - starts[i])
    return offsets, data
