"""Rewrites a chrome trace of torch.profiler into virtual time.

Host events carry the emulating host's real time; they are moved by the map of the window. Device events were placed
on the virtual clock when they were emitted and stay as they are.

The rewrite works on the text that Kineto writes, whose layout is fixed by the pinned torch (a test compares): that is
several times faster than parsing, and names that Kineto leaves unescaped, which no parser takes, can be mended.
"""

import json
import re
from typing import Any, Final

import numpy as np

from trnscope.core.clock import HostMap
from trnscope.profiling.placement import Ints

DEVICE_CATEGORIES: Final = frozenset(
    {b"kernel", b"gpu_memcpy", b"gpu_memset", b"gpu_user_annotation", b"privateuse1_driver"}
)

_EVENT: Final = re.compile(
    rb'^    "ph": "([Xisf])",\n'
    rb'(?:    "id": [^\n]*\n)?'
    rb"(?: *\n)?"
    rb'(?:    "cat": "(?P<cat>[^"\n]*)",\n)?'
    rb'(?:    "s": "[^"\n]*",\n)?'
    rb'(?:    "name": "(?P<name>[^\n]*)",\n)?'
    rb'    "pid": [^\n]*,\n'
    rb'    "tid": (?P<tid>[^\n]*),\n'
    rb'    "ts": (?P<ts>[0-9.]+),?'
    rb'(?:\n    "dur": (?P<dur>[0-9.]+))?'
    rb'(?:\n    "cat": "(?P<flow>[^"\n]*)",)?',
    re.MULTILINE,
)
"""One event with a time: slices, instants, and the two ends of a flow, whose category comes last."""

_METADATA: Final = rb"""  \{
    "ph": "M",
    "name": "%s",
    "ts": [0-9.]+,
    "pid": %s,
    "tid": 0,
    "args": \{
      "%s": %s
    \}
  \},
"""
_GPU: Final = re.compile(
    _METADATA % (b"process_name", rb"(\d+)", b"name", rb"[^\n]*")
    + _METADATA % (b"process_labels", rb"\1", b"labels", rb'"GPU \1"')
    + _METADATA % (b"process_sort_index", rb"\1", b"sort_index", rb"\d+")
)
"""The names that Kineto gives to processes 0 to 15 of every trace, whether there are GPUs or not."""

_BASE: Final = re.compile(rb'"baseTimeNanoseconds": (\d+)')
_FIRST: Final = re.compile(rb'"schemaVersion": \d+,')


def to_virtual(text: bytes, mapping: HostMap, about: dict[str, Any]) -> bytes:
    """The trace with its host events on the virtual host clock.

    Args:
        text: as torch writes it, times in microseconds after `baseTimeNanoseconds`.
        mapping: real to virtual host time, per system thread, in Unix nanoseconds.
        about: put into the trace under `trnscope`, so that a reader knows what the times are.
    """
    found = _BASE.search(text)
    base_ns = int(found[1]) if found else 0
    edits: list[tuple[int, int, bytes]] = [(*gpu.span(), b"") for gpu in _GPU.finditer(text)]
    places: dict[bytes, list[tuple[int, int]]] = {}
    times: dict[bytes, list[tuple[bytes, bytes]]] = {}
    for event in _EVENT.finditer(text):
        name = event["name"]
        if name is not None and (b'"' in name or b"\\" in name):
            edits.append((*event.span("name"), _escaped(name)))
        if _is_host(event):
            thread = event["tid"]
            places.setdefault(thread, []).append((event.start("ts"), event.start("dur")))
            times.setdefault(thread, []).append((event["ts"], event["dur"]))
    for thread, at in places.items():
        number = int(thread) if thread.isdigit() else -1
        start = base_ns + _nanoseconds([start for start, _ in times[thread]])
        end = start + _nanoseconds([length or b"0" for _, length in times[thread]])
        virtual = mapping.map_times(number, start)
        lengths = (mapping.map_times(number, end) - virtual).tolist()
        moved = zip(at, times[thread], (virtual - base_ns).tolist(), lengths, strict=True)
        for (at_start, at_length), (old_start, old_length), new_start, new_length in moved:
            edits.append((at_start, at_start + len(old_start), _microseconds(new_start)))
            if old_length is not None:
                edits.append((at_length, at_length + len(old_length), _microseconds(new_length)))
    first = _FIRST.search(text)
    if first:
        edits.append((first.end(), first.end(), b'\n    "trnscope": ' + json.dumps(about).encode() + b","))
    return _edited(text, edits)


def _is_host(event: re.Match[bytes]) -> bool:
    # The second end of a launch arrow lies on the device.
    return event["cat"] not in DEVICE_CATEGORIES and not (event["flow"] == b"ac2g" and event[1] == b"f")


def _nanoseconds(microseconds: list[bytes]) -> Ints:
    """Decimal texts with at most three digits after the point, without the rounding of floating point."""
    parts = (text.partition(b".") for text in microseconds)
    return np.array([int(whole) * 1000 + int((rest + b"000")[:3]) for whole, _, rest in parts], np.int64)


def _microseconds(nanoseconds: int) -> bytes:
    return b"%d.%03d" % divmod(nanoseconds, 1000)


def _escaped(name: bytes) -> bytes:
    """The inside of a JSON string; names that are one already stay."""
    try:
        json.loads(b'"' + name + b'"')
    except ValueError:
        return json.dumps(name.decode(errors="replace"), ensure_ascii=False)[1:-1].encode()
    return name


def _edited(text: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """`text` with the spans (start, end) replaced."""
    pieces: list[bytes] = []
    position = 0
    for start, end, replacement in sorted(edits):
        pieces += (text[position:start], replacement)
        position = end
    pieces.append(text[position:])
    return b"".join(pieces)
