"""Texts by position: equal ones numbered, many gathered into one column."""

import numpy as np
from numba import njit

from trnscope.store.simd import byte_at


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
    for i in range(n):
        s = starts[i]
        if s < 0:
            ids[i] = -1
            continue
        size = stops[i] - s
        h = np.uint64(14695981039346656037)
        for k in range(s, stops[i]):
            h = (h ^ np.uint64(byte_at(buf, k))) * np.uint64(1099511628211)
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
            if stops[first[entry]] - o == size:
                same = True
                for k in range(size):
                    if byte_at(buf, o + k) != byte_at(buf, s + k):
                        same = False
                        break
                if same:
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
            data[offsets[i] : offsets[i + 1]] = buf[starts[i] : stops[i]]
    return offsets, data
