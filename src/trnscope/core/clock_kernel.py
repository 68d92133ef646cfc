"""The loop of the virtual clock. `trnscope.core.clock` documents its rules and checks its arguments."""

from typing import Any

import numba
import numpy as np

from trnscope.core.clock_layout import (
    DOUBT,
    EVENT_ID,
    EVENT_TIME,
    LENDER,
    MAX_EVENTS,
    NO_ENTRY,
    OWN_REAL,
    OWNER_KIND,
    REAL,
    SEEN,
    STREAM_DEVICE,
    STREAM_FREE,
    STREAM_ID,
    TASK,
    TASK_SEEN,
    THREAD_ID,
    VIRTUAL,
)
from trnscope.schema.records import Flag, Kind

# numba freezes plain integers into the compiled code; it cannot index enums.
_GRAPH, _COPY_H2D, _COPY_D2H, _COPY_D2D = int(Kind.GRAPH), int(Kind.COPY_H2D), int(Kind.COPY_D2H), int(Kind.COPY_D2D)
_COLLECTIVE = int(Kind.COLLECTIVE)
_EVENT_RECORD, _EVENT_WAIT, _EVENT_SYNC = int(Kind.EVENT_RECORD), int(Kind.EVENT_WAIT), int(Kind.EVENT_SYNC)
_STREAM_SYNC, _DEVICE_SYNC = int(Kind.STREAM_SYNC), int(Kind.DEVICE_SYNC)
_NON_BLOCKING, _BLOCKING = int(Flag.NON_BLOCKING), int(Flag.BLOCKING)
_MEASURED, _MODELLED, _PACED = 0, 1, 2
_EAGER, _COMPILED, _LATENCY, _COPY, _SYNC = range(5)

_jit = numba.njit(cache=True, nogil=True, boundscheck=False)


@_jit
def _thread_slot(threads, n, key):  # type: ignore[no-untyped-def]
    for slot in range(n):
        if threads[slot, THREAD_ID] == key:
            return slot
    return -1


@_jit
def _stream_slot(streams, n, device, stream):  # type: ignore[no-untyped-def]
    for slot in range(n):
        if streams[slot, STREAM_ID] == stream and streams[slot, STREAM_DEVICE] == device:
            return slot
    return -1


@_jit
def _least(table, n, column):  # type: ignore[no-untyped-def]
    best = 0
    for slot in range(1, n):
        if table[slot, column] < table[best, column]:
            best = slot
    return best


@_jit
def _latest_owner(threads, n, but, entry, mode):  # type: ignore[no-untyped-def]
    """(slot, SEEN of the runner-up) of the owner threads outside of dispatch; -1 where there is none."""
    best, runner_up = -1, -1
    for slot in range(n):
        if slot == but or threads[slot, OWNER_KIND] == 0:
            continue
        if mode == _MEASURED and threads[slot, OWN_REAL] > entry:
            continue
        if best < 0 or threads[slot, SEEN] > threads[best, SEEN]:
            if best >= 0:
                runner_up = max(runner_up, threads[best, SEEN])
            best = slot
        else:
            runner_up = max(runner_up, threads[slot, SEEN])
    return best, runner_up


@_jit
def _resume(threads, slot, entry, mode):  # type: ignore[no-untyped-def]
    """Virtual time of a thread at the real time `entry`."""
    gap = entry - threads[slot, REAL]
    return threads[slot, VIRTUAL] + (gap if mode == _MEASURED and gap > 0 else 0)


@_jit
def _host_cost(kind, costs):  # type: ignore[no-untyped-def]
    if kind == _GRAPH:
        return costs[_COMPILED]
    if _COPY_H2D <= kind <= _COPY_D2D:
        return costs[_COPY]
    if _EVENT_RECORD <= kind <= _DEVICE_SYNC:
        return costs[_SYNC]
    return costs[_EAGER]


def _field(item: Any) -> Any:
    """A field of the log: strided, maybe read-only. One signature for all, so that it is compiled once."""
    return numba.types.Array(item, 1, "A", readonly=True)


_i64 = numba.int64
_table = _i64[:, ::1]
_signature = numba.void(
    _i64,
    _field(_i64), _field(_i64), _field(_i64), _field(numba.uint32), _field(numba.int32),
    _field(numba.int16), _field(numba.int16), _field(numba.uint8), _field(numba.uint8),
    _field(_i64), _i64[::1], _table, _table, _table, _i64[::1], _table, _i64[::1], numba.boolean[::1],
)  # fmt: skip


@numba.njit(_signature, cache=True, nogil=True, boundscheck=False)
def run(  # type: ignore[no-untyped-def]
    mode, enter_ns, exit_ns, aux, thread, graph_task, device, stream, kind_of, flags, duration_ns, costs,
    threads, streams, events, sizes, times, lenders, uncertain,
):  # fmt: skip
    """Replay; updates `threads`, `streams`, `events` and `sizes` (threads, streams, records) in place."""
    n_threads, n_streams, count = sizes
    me, line = -1, -1
    for i in range(len(enter_ns)):
        entry, leave, kind = enter_ns[i], exit_ns[i], np.int64(kind_of[i])
        key, task = np.int64(thread[i]), np.int64(graph_task[i])
        doubt = False

        # Whose clock, and where it stands.
        known = True
        if me < 0 or me >= n_threads or threads[me, THREAD_ID] != key:
            me = _thread_slot(threads, n_threads, key)
            if me < 0:
                known = False
                if n_threads < len(threads):
                    me = n_threads
                    n_threads += 1
                else:
                    me = _least(threads, n_threads, SEEN)
                threads[me] = NO_ENTRY
                threads[me, THREAD_ID] = key
                threads[me, OWNER_KIND] = 0
        lender = -1
        if mode == _PACED:
            begin = entry
        else:
            worker = task >= 0 and threads[me, OWNER_KIND] == 0
            if worker:
                same_task = threads[me, TASK] == task
                if same_task and threads[me, LENDER] != NO_ENTRY:
                    lender = _thread_slot(threads, n_threads, threads[me, LENDER])
                    if lender >= 0 and mode == _MEASURED and threads[lender, OWN_REAL] > entry:
                        lender = -1
                        doubt = True
                elif not same_task:
                    lender, runner_up = _latest_owner(threads, n_threads, me, entry, mode)
                    threads[me, DOUBT] = runner_up > threads[me, TASK_SEEN]
                    threads[me, TASK_SEEN] = count
                doubt = doubt or threads[me, DOUBT] > 0
            if lender >= 0:
                begin = _resume(threads, lender, entry, mode)
                if known:
                    begin = max(begin, threads[me, VIRTUAL])
                doubt = doubt or threads[lender, SEEN] != count
            elif known:
                begin = _resume(threads, me, entry, mode)
                doubt = doubt or threads[me, SEEN] != count
            else:
                parent, runner_up = _latest_owner(threads, n_threads, me, np.int64(2**62), mode)
                if parent >= 0:
                    begin = _resume(threads, parent, entry, mode)
                    doubt = doubt or runner_up >= 0 or (mode == _MEASURED and threads[parent, REAL] > entry)
                else:
                    begin = entry if mode == _MEASURED else np.int64(0)

        # What the call costs the host, and what it puts on a stream.
        passes = kind > _DEVICE_SYNC  # views and marks
        if mode == _PACED:
            submit, end = entry, leave
        else:
            spent = _host_cost(kind, costs)
            if passes:
                spent = max(leave - entry, 0) if mode == _MEASURED else 0
            submit = begin + spent
            end = submit
        start_device, end_device = np.int64(-1), np.int64(-1)
        wait = np.int64(-1)
        if not passes and kind != _EVENT_SYNC and kind != _DEVICE_SYNC:
            d, s = np.int64(device[i]), np.int64(stream[i])
            if line < 0 or streams[line, STREAM_ID] != s or streams[line, STREAM_DEVICE] != d:
                line = _stream_slot(streams, n_streams, d, s)
                if line < 0:
                    if n_streams < len(streams):
                        line = n_streams
                        n_streams += 1
                    else:
                        line = _least(streams, n_streams, STREAM_FREE)
                    streams[line, STREAM_DEVICE] = d
                    streams[line, STREAM_ID] = s
                    streams[line, STREAM_FREE] = NO_ENTRY
            free = streams[line, STREAM_FREE]
            if kind <= _COLLECTIVE:
                start_device = max(submit + costs[_LATENCY], free)
                end_device = start_device + duration_ns[i]
                streams[line, STREAM_FREE] = end_device
                host_copy = kind in (_COPY_H2D, _COPY_D2H)
                if flags[i] & _BLOCKING or (host_copy and not flags[i] & _NON_BLOCKING):
                    wait = end_device
            elif kind == _EVENT_RECORD:
                event = events[aux[i] % MAX_EVENTS]
                event[EVENT_ID] = aux[i]
                event[EVENT_TIME] = max(submit + costs[_LATENCY], free)
            elif kind == _EVENT_WAIT:
                event = events[aux[i] % MAX_EVENTS]
                if event[EVENT_ID] == aux[i]:
                    streams[line, STREAM_FREE] = max(free, event[EVENT_TIME])
                else:
                    doubt = True
            elif kind == _STREAM_SYNC:
                wait = free
        elif kind == _EVENT_SYNC:
            event = events[aux[i] % MAX_EVENTS]
            if event[EVENT_ID] == aux[i]:
                wait = event[EVENT_TIME]
            else:
                doubt = True
        elif kind == _DEVICE_SYNC:
            for slot in range(n_streams):
                if streams[slot, STREAM_DEVICE] == device[i]:
                    wait = max(wait, streams[slot, STREAM_FREE])
        if mode != _PACED:
            end = max(end, wait)

        # Leave the clocks for the next record.
        count += 1
        threads[me, VIRTUAL] = end
        threads[me, REAL] = leave
        threads[me, OWN_REAL] = leave
        threads[me, SEEN] = count
        if task < 0:
            threads[me, OWNER_KIND] = 1
        threads[me, TASK] = task
        threads[me, LENDER] = NO_ENTRY
        lenders[i] = NO_ENTRY
        if lender >= 0:
            lenders[i] = threads[lender, THREAD_ID]
            threads[me, LENDER] = lenders[i]
            threads[lender, VIRTUAL] = end
            threads[lender, REAL] = max(leave, threads[lender, REAL])
            threads[lender, SEEN] = count
        times[0, i], times[1, i], times[2, i], times[3, i] = begin, end, start_device, end_device
        uncertain[i] = doubt and mode != _PACED
    sizes[0], sizes[1], sizes[2] = n_threads, n_streams, count
