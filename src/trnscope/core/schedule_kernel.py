"""The scheduling pass: one longest-path (max-plus) sweep over a program in program order, compiled by numba.

Rows are taken in program order. A row starts when its engine or ring is free and all it waits for has happened; both
depend on earlier rows only, so one sweep is exact. What all transfers share is the DMA bandwidth: the transfer of the
earlier row has priority, and a later one uses the capacity that earlier ones leave idle, kept as a list of gaps. That
discipline (preemptive priority by program order) conserves work and needs no events either.

Time is integer picoseconds. A loop whose state repeats, shifted in time by a constant, jumps over the remaining whole
periods: nothing but time shifts in between, so the result equals the full sweep.

Everything is packed into few two-dimensional int64 arrays, whose columns are named below: a row of a program is one
cache line, and numba compiles functions of few arguments much faster. Loops copy element by element for that reason:
assigning slices would compile the formatting of numba's error messages, most of a minute of work.
"""

from typing import Final

import numba
import numpy as np

PERIOD: Final = 12
"""Iterations between two comparisons of the state: a multiple of the usual rotation depths."""
MAX_GAPS: Final = 64
"""Idle gaps of the DMA engines that are remembered; older ones count as used, which can only make a program slower."""
SWEEP_BUDGET: Final = 20_000_000
"""Rows swept one by one (about a second); a loop that has not settled by then goes on at the rate of its last period,
and the schedule says that it is an estimate."""
N_ENGINES: Final = 5
NEVER: Final = 2**62

# Columns of `rows`.
RESOURCE, OCCUPATION, LATENCY, WORK, WORK_LARGE, SIZE, RAISES, WAIT_FIRST = range(8)
# Columns of `waits`.
SEMAPHORE, LAG, REASON, HOP = range(4)
# Columns of `semaphores`: where its history begins, its length minus one, how often it was raised.
OFFSET, MASK, COUNT = range(3)
# Columns of `history` and of `gaps`.
MOMENT, STEP_OF = range(2)
START, STOP = range(2)
# Columns of `resources`; `totals` has busy time, then one column per stall reason.
FREE, LAST_STEP = range(2)
BUSY, STALL = 0, 1
ISSUE, RING, BANDWIDTH = 0, 3, 4
N_TOTALS: Final = 8
# Positions in `scalars`.
N_GAPS, PIPE_END, TRAFFIC, STEP, END, RECORDED, SWEPT, ESTIMATED, N_SCALARS = range(9)
# Columns of `loops`, of `blocks` and of `record`.
FIRST, LENGTH, TIMES = range(3)
REC_ROW, REC_START, REC_END, REC_WAIT, REC_REASON, REC_CRITICAL, N_RECORD = range(7)


@numba.njit(cache=True, nogil=True)
def _transfer(ready, work, gaps, scalars):  # type: ignore[no-untyped-def]
    """Serve a transfer that is ready at `ready`: (first moment served, last moment served)."""
    n = scalars[N_GAPS]
    first = np.int64(-1)
    write = 0
    read = 0
    while read < n:
        start = gaps[read, START]
        stop = gaps[read, STOP]
        read += 1
        begin = max(start, ready)
        if work > 0 and stop > begin:
            if first < 0:
                first = begin
            if work < stop - begin:
                if begin > start and n < MAX_GAPS:
                    # The gap splits in two: make room by moving the rest up.
                    for i in range(n, read, -1):
                        gaps[i, START] = gaps[i - 1, START]
                        gaps[i, STOP] = gaps[i - 1, STOP]
                    gaps[write, START] = start
                    gaps[write, STOP] = begin
                    write += 1
                    n += 1
                    read += 1
                gaps[write, START] = begin + work
                gaps[write, STOP] = stop
                write += 1
                ready = begin + work
                work = 0
            else:
                work -= stop - begin
                ready = stop
                if begin > start:
                    gaps[write, START] = start
                    gaps[write, STOP] = begin
                    write += 1
        else:
            gaps[write, START] = start
            gaps[write, STOP] = stop
            write += 1
    n = write
    if work > 0:
        begin = max(scalars[PIPE_END], ready)
        if first < 0:
            first = begin
        if begin > scalars[PIPE_END]:
            if n == MAX_GAPS:
                for i in range(n - 1):
                    gaps[i, START] = gaps[i + 1, START]
                    gaps[i, STOP] = gaps[i + 1, STOP]
                n -= 1
            gaps[n, START] = scalars[PIPE_END]
            gaps[n, STOP] = begin
            n += 1
        ready = begin + work
        scalars[PIPE_END] = ready
    scalars[N_GAPS] = n
    return (ready if first < 0 else first), ready


@numba.njit(cache=True, nogil=True)
def _prune(rings, resources, gaps, scalars):  # type: ignore[no-untyped-def]
    """Forget gaps that end before any later transfer can be ready."""
    horizon = np.int64(NEVER)
    for i in range(len(rings)):
        if rings[i]:
            horizon = min(horizon, resources[N_ENGINES + i, FREE])
    n = scalars[N_GAPS]
    drop = 0
    while drop < n and gaps[drop, STOP] <= horizon:
        drop += 1
    if drop:
        for i in range(drop, n):
            gaps[i - drop, START] = gaps[i, START]
            gaps[i - drop, STOP] = gaps[i, STOP]
        scalars[N_GAPS] = n - drop


@numba.njit(cache=True, nogil=True)
def _iteration(  # type: ignore[no-untyped-def]
    first, last, rows, waits, semaphores, history, resources, totals, gaps, scalars, threshold, rings, record
):
    """Sweep rows [first, last) once."""
    for r in range(first, last):
        q = rows[r, RESOURCE]
        issue = resources[q, FREE]
        at = issue
        reason = np.int64(ISSUE if q < N_ENGINES else RING)
        critical = resources[q, LAST_STEP]
        for w in range(rows[r, WAIT_FIRST], rows[r + 1, WAIT_FIRST]):
            s = waits[w, SEMAPHORE]
            value = semaphores[s, COUNT] - waits[w, LAG]
            if value > 0:
                slot = semaphores[s, OFFSET] + ((value - 1) & semaphores[s, MASK])
                moment = history[slot, MOMENT] + waits[w, HOP]
                if moment > at:
                    at = moment
                    reason = waits[w, REASON]
                    critical = history[slot, STEP_OF]
        totals[q, STALL + reason] += at - issue
        start = at
        if q < N_ENGINES:
            cost = rows[r, OCCUPATION]
            stop = at + cost
        else:
            cost = rows[r, WORK_LARGE] if scalars[TRAFFIC] >= threshold else rows[r, WORK]
            scalars[TRAFFIC] += rows[r, SIZE]
            start, stop = _transfer(at, cost, gaps, scalars)
            totals[q, STALL + BANDWIDTH] += stop - at - cost
        totals[q, BUSY] += cost
        resources[q, FREE] = stop
        done = stop + rows[r, LATENCY]
        step = scalars[STEP]
        scalars[STEP] = step + 1
        scalars[SWEPT] += 1
        resources[q, LAST_STEP] = step
        s = rows[r, RAISES]
        if s >= 0:
            slot = semaphores[s, OFFSET] + (semaphores[s, COUNT] & semaphores[s, MASK])
            history[slot, MOMENT] = done
            history[slot, STEP_OF] = step
            semaphores[s, COUNT] += 1
        scalars[END] = max(scalars[END], done)
        n = scalars[RECORDED]
        if n < len(record):
            record[n, REC_ROW] = r
            record[n, REC_START] = start
            record[n, REC_END] = stop
            record[n, REC_WAIT] = start - issue
            record[n, REC_REASON] = reason
            record[n, REC_CRITICAL] = critical
            scalars[RECORDED] = n + 1
    if scalars[N_GAPS] > 0:
        _prune(rings, resources, gaps, scalars)


@numba.njit(cache=True, nogil=True)
def _snapshot(out, resources, semaphores, history, gaps, scalars):  # type: ignore[no-untyped-def]
    """Everything that later rows depend on, semaphore values by age, into `out`."""
    k = 0
    for q in range(len(resources)):
        out[k] = resources[q, FREE]
        k += 1
    for s in range(len(semaphores)):
        for age in range(semaphores[s, MASK] + 1):
            value = semaphores[s, COUNT] - age
            slot = semaphores[s, OFFSET] + ((value - 1) & semaphores[s, MASK])
            out[k] = history[slot, MOMENT] if value > 0 else -1
            k += 1
    for i in range(MAX_GAPS):
        used = i < scalars[N_GAPS]
        out[k] = gaps[i, START] if used else -1
        out[k + 1] = gaps[i, STOP] if used else -1
        k += 2
    out[k] = scalars[PIPE_END]


@numba.njit(cache=True, nogil=True)
def _transfers(used):  # type: ignore[no-untyped-def]
    """Whether a loop uses any ring."""
    return used[N_ENGINES:].any()


@numba.njit(cache=True, nogil=True)
def _shift(before, after, raised_before, semaphores, used):  # type: ignore[no-untyped-def]
    """The one time shift between two snapshots, -1 when there is none.

    What the loop does not touch may stay; everything else must have moved by the same amount.
    """
    shift = np.int64(-1)
    k = 0
    for q in range(len(used)):
        if used[q]:
            moved = after[k] - before[k]
            if shift >= 0 and moved != shift:
                return np.int64(-1)
            shift = moved
        k += 1
    for s in range(len(semaphores)):
        touched = semaphores[s, COUNT] != raised_before[s]
        for _ in range(semaphores[s, MASK] + 1):
            if touched and (before[k] < 0 or after[k] - before[k] != shift):
                return np.int64(-1)
            k += 1
    # The gaps and the end of the DMA engines' work move only if the loop transfers anything.
    while _transfers(used) and k < len(after):
        if (before[k] < 0) != (after[k] < 0):
            return np.int64(-1)
        # Engines that only had transfers of no work so far stay at 0.
        idle = after[k] == 0 and before[k] == 0
        if after[k] >= 0 and not idle and after[k] - before[k] != shift:
            return np.int64(-1)
        k += 1
    return shift


@numba.njit(cache=True, nogil=True)
def _jump(  # type: ignore[no-untyped-def]
    times, shift, used, saved_raised, saved_totals, saved_scalars, semaphores, history, resources, totals, gaps, scalars
):
    """Advance the state by `times` periods."""
    move = times * shift
    steps = times * (scalars[STEP] - saved_scalars[STEP])
    for q in range(len(used)):
        if used[q]:
            resources[q, FREE] += move
            resources[q, LAST_STEP] += steps
        for k in range(N_TOTALS):
            totals[q, k] += times * (totals[q, k] - saved_totals[q, k])
    for s in range(len(semaphores)):
        by = semaphores[s, COUNT] - saved_raised[s]
        if by == 0:
            continue
        n = semaphores[s, MASK] + 1
        base = semaphores[s, OFFSET]
        old = np.zeros((n, 2), np.int64)
        for i in range(n):
            old[i, MOMENT] = history[base + i, MOMENT]
            old[i, STEP_OF] = history[base + i, STEP_OF]
        new_count = semaphores[s, COUNT] + times * by
        for age in range(n):
            source = (semaphores[s, COUNT] - age - 1) & semaphores[s, MASK]
            target = base + ((new_count - age - 1) & semaphores[s, MASK])
            history[target, MOMENT] = old[source, MOMENT] + move
            history[target, STEP_OF] = old[source, STEP_OF] + steps
        semaphores[s, COUNT] = new_count
    if _transfers(used):
        for i in range(scalars[N_GAPS]):
            gaps[i, START] += move
            gaps[i, STOP] += move
        if scalars[PIPE_END] > 0:
            scalars[PIPE_END] += move
    scalars[TRAFFIC] += times * (scalars[TRAFFIC] - saved_scalars[TRAFFIC])
    scalars[STEP] += steps
    scalars[END] += move


@numba.njit(cache=True, nogil=True)
def _periods(remaining, traffic, traffic_before, threshold):  # type: ignore[no-untyped-def]
    """Whole periods that can be jumped over: up to the end of the loop or to the change of the DMA rate."""
    if traffic_before < threshold <= traffic:
        return np.int64(0)
    times = np.int64(remaining // PERIOD)
    if traffic < threshold and traffic > traffic_before:
        times = min(times, (threshold - traffic) // (traffic - traffic_before))
    return times


@numba.njit(cache=True, nogil=True)
def _extrapolate(  # type: ignore[no-untyped-def]
    remaining, known, used, saved, saved_raised, saved_totals, saved_scalars, now, semaphores, history, resources,
    totals, gaps, scalars, threshold,
):  # fmt: skip
    """Jump over what repeats: iterations skipped. Without a repetition, keep the state for the next comparison."""
    _snapshot(now, resources, semaphores, history, gaps, scalars)
    if known:
        shift = _shift(saved, now, saved_raised, semaphores, used)
        times = _periods(remaining, scalars[TRAFFIC], saved_scalars[TRAFFIC], threshold)
        # The last result must move along too, or it belongs to something that the loop has yet to overtake.
        exact = shift >= 0 and scalars[END] - saved_scalars[END] == shift
        if not exact and scalars[SWEPT] > SWEEP_BUDGET:
            shift = scalars[END] - saved_scalars[END]
            times = np.int64(remaining // PERIOD)
            scalars[ESTIMATED] = 1
            exact = True
        if times > 0 and exact:
            _jump(
                times, shift, used, saved_raised, saved_totals, saved_scalars, semaphores, history, resources, totals,
                gaps, scalars,
            )  # fmt: skip
            return times * PERIOD
    for k in range(len(now)):
        saved[k] = now[k]
    for s in range(len(semaphores)):
        saved_raised[s] = semaphores[s, COUNT]
    for q in range(len(totals)):
        for k in range(N_TOTALS):
            saved_totals[q, k] = totals[q, k]
    for k in range(N_SCALARS):
        saved_scalars[k] = scalars[k]
    return np.int64(0)


@numba.njit(cache=True, nogil=True)
def sweep(  # type: ignore[no-untyped-def]
    rows, waits, semaphores, loops, blocks, threshold, n_resources, history_length, extrapolate, record
):
    """Schedule a whole program.

    Args:
        rows: one more than the program has, the last one only closes the waits.
        record: filled with the first rows executed; empty when only totals are wanted.

    Returns:
        (scalars, totals per resource): the end is `scalars[END]`.
    """
    resources = np.zeros((n_resources, 2), np.int64)
    for q in range(n_resources):
        resources[q, LAST_STEP] = -1
    totals = np.zeros((n_resources, N_TOTALS), np.int64)
    history = np.zeros((history_length, 2), np.int64)
    gaps = np.zeros((MAX_GAPS + 1, 2), np.int64)
    scalars = np.zeros(N_SCALARS, np.int64)

    # Index 0: the loop; index 1: the block around it.
    width = n_resources + history_length + 2 * MAX_GAPS + 1
    now = np.zeros(width, np.int64)
    saved = np.zeros((2, width), np.int64)
    saved_raised = np.zeros((2, len(semaphores)), np.int64)
    saved_totals = np.zeros((2, n_resources, N_TOTALS), np.int64)
    saved_scalars = np.zeros((2, N_SCALARS), np.int64)
    used = np.zeros((2, n_resources), np.bool_)

    # Rings that a block or a later one uses: gaps before all of them are out of reach.
    rings_from = np.zeros((len(blocks) + 1, n_resources - N_ENGINES), np.bool_)
    for b in range(len(blocks) - 1, -1, -1):
        for i in range(n_resources - N_ENGINES):
            rings_from[b, i] = rings_from[b + 1, i]
        for loop in range(blocks[b, FIRST], blocks[b, FIRST] + blocks[b, LENGTH]):
            for r in range(loops[loop, FIRST], loops[loop, FIRST] + loops[loop, LENGTH]):
                if rows[r, RESOURCE] >= N_ENGINES:
                    rings_from[b, rows[r, RESOURCE] - N_ENGINES] = True

    for b in range(len(blocks)):
        loops_from = blocks[b, FIRST]
        loops_to = loops_from + blocks[b, LENGTH]
        for q in range(n_resources):
            used[1, q] = False
        for loop in range(loops_from, loops_to):
            for r in range(loops[loop, FIRST], loops[loop, FIRST] + loops[loop, LENGTH]):
                used[1, rows[r, RESOURCE]] = True
        outer = np.int64(0)
        since_outer = 0
        known_outer = False
        while outer < blocks[b, TIMES]:
            for loop in range(loops_from, loops_to):
                first = loops[loop, FIRST]
                last = first + loops[loop, LENGTH]
                for q in range(n_resources):
                    used[0, q] = False
                for r in range(first, last):
                    used[0, rows[r, RESOURCE]] = True
                inner = np.int64(0)
                since = 0
                known = False
                while inner < loops[loop, TIMES]:
                    _iteration(
                        first, last, rows, waits, semaphores, history, resources, totals, gaps, scalars, threshold,
                        rings_from[b], record,
                    )  # fmt: skip
                    inner += 1
                    since += 1
                    recording = scalars[RECORDED] < len(record)
                    if extrapolate and not recording and loops[loop, TIMES] > 3 * PERIOD and since == PERIOD:
                        since = 0
                        skipped = _extrapolate(
                            loops[loop, TIMES] - inner, known, used[0], saved[0], saved_raised[0], saved_totals[0],
                            saved_scalars[0], now, semaphores, history, resources, totals, gaps, scalars, threshold,
                        )  # fmt: skip
                        inner += skipped
                        known = skipped == 0
            outer += 1
            since_outer += 1
            recording = scalars[RECORDED] < len(record)
            if extrapolate and not recording and blocks[b, TIMES] > 3 * PERIOD and since_outer == PERIOD:
                since_outer = 0
                skipped = _extrapolate(
                    blocks[b, TIMES] - outer, known_outer, used[1], saved[1], saved_raised[1], saved_totals[1],
                    saved_scalars[1], now, semaphores, history, resources, totals, gaps, scalars, threshold,
                )  # fmt: skip
                outer += skipped
                known_outer = skipped == 0
    return scalars, totals
