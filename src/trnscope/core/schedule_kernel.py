"""The scheduling pass: one longest-path (max-plus) sweep over a program in program order, compiled by numba.

Rows are taken in program order. A row starts when its engine or ring is free and all it waits for has happened; both
depend on earlier rows only, so one sweep is exact. What all transfers share is the DMA bandwidth: the transfer of the
earlier row has priority, and a later one uses the capacity that earlier ones leave idle, kept as a list of gaps. That
discipline (preemptive priority by program order) conserves work and needs no events either.

Time is integer picoseconds. A loop whose state repeats, shifted in time by a constant, jumps over the remaining whole
periods: nothing but time shifts in between, so the result equals the full sweep.
"""

import numba
import numpy as np

PERIOD = 12
"""Iterations between two comparisons of the state: a multiple of the usual rotation depths."""
MAX_GAPS = 64
"""Idle gaps of the DMA engines that are remembered; older ones count as used, which can only make a program slower."""
N_REASONS = 7
ISSUE, RING, BANDWIDTH = 0, 3, 4
N_ENGINES = 5
NEVER = np.int64(2**62)

# Positions in the vector of scalars.
N_GAPS, PIPE_END, TRAFFIC, STEP, END, RECORDED = 0, 1, 2, 3, 4, 5
N_SCALARS = 6


@numba.njit(cache=True, nogil=True)
def _transfer(ready, work, gap_start, gap_end, scalars):  # type: ignore[no-untyped-def]
    """Serve a transfer that is ready at `ready`: (first moment served, last moment served)."""
    n = scalars[N_GAPS]
    first = np.int64(-1)
    write = 0
    read = 0
    while read < n:
        start = gap_start[read]
        end = gap_end[read]
        read += 1
        begin = max(start, ready)
        if work > 0 and end > begin:
            if first < 0:
                first = begin
            if work < end - begin:
                if begin > start and n < MAX_GAPS:
                    # The gap splits in two: make room by moving the rest up.
                    for i in range(n, read, -1):
                        gap_start[i] = gap_start[i - 1]
                        gap_end[i] = gap_end[i - 1]
                    gap_start[write] = start
                    gap_end[write] = begin
                    write += 1
                    n += 1
                    read += 1
                gap_start[write] = begin + work
                gap_end[write] = end
                write += 1
                ready = begin + work
                work = 0
            else:
                work -= end - begin
                ready = end
                if begin > start:
                    gap_start[write] = start
                    gap_end[write] = begin
                    write += 1
        else:
            gap_start[write] = start
            gap_end[write] = end
            write += 1
    n = write
    if work > 0:
        begin = max(scalars[PIPE_END], ready)
        if first < 0:
            first = begin
        if begin > scalars[PIPE_END]:
            if n == MAX_GAPS:
                for i in range(n - 1):
                    gap_start[i] = gap_start[i + 1]
                    gap_end[i] = gap_end[i + 1]
                n -= 1
            gap_start[n] = scalars[PIPE_END]
            gap_end[n] = begin
            n += 1
        ready = begin + work
        scalars[PIPE_END] = ready
    scalars[N_GAPS] = n
    return (ready if first < 0 else first), ready


@numba.njit(cache=True, nogil=True)
def _prune(horizon, gap_start, gap_end, scalars):  # type: ignore[no-untyped-def]
    """Forget gaps that end before any later transfer can be ready."""
    n = scalars[N_GAPS]
    drop = 0
    while drop < n and gap_end[drop] <= horizon:
        drop += 1
    if drop:
        for i in range(drop, n):
            gap_start[i - drop] = gap_start[i]
            gap_end[i - drop] = gap_end[i]
        scalars[N_GAPS] = n - drop


@numba.njit(cache=True, nogil=True)
def _rows(  # type: ignore[no-untyped-def]
    first, last, resource, occupation, latency, work, work_large, size, inc, wait_first, wait_semaphore, wait_lag,
    wait_reason, wait_hop, offset, mask, threshold, rings, free, last_step, count, history, history_step, gap_start,
    gap_end, scalars, busy, stall, record, rec_row, rec_start, rec_end, rec_wait, rec_reason, rec_critical,
):  # fmt: skip
    """Sweep rows [first, last) once."""
    for r in range(first, last):
        q = resource[r]
        at = free[q]
        issue = at
        reason = ISSUE if q < N_ENGINES else RING
        critical = last_step[q]
        for w in range(wait_first[r], wait_first[r + 1]):
            s = wait_semaphore[w]
            value = count[s] - wait_lag[w]
            if value > 0:
                slot = offset[s] + ((value - 1) & mask[s])
                moment = history[slot] + wait_hop[w]
                if moment > at:
                    at = moment
                    reason = wait_reason[w]
                    critical = history_step[slot]
        stall[q, reason] += at - issue
        if q < N_ENGINES:
            start = at
            end = at + occupation[r]
            busy[q] += occupation[r]
        else:
            cost = work_large[r] if scalars[TRAFFIC] >= threshold else work[r]
            scalars[TRAFFIC] += size[r]
            start, end = _transfer(at, cost, gap_start, gap_end, scalars)
            stall[q, BANDWIDTH] += end - at - cost
            busy[q] += cost
        free[q] = end
        done = end + latency[r]
        step = scalars[STEP]
        scalars[STEP] = step + 1
        last_step[q] = step
        s = inc[r]
        if s >= 0:
            slot = offset[s] + (count[s] & mask[s])
            history[slot] = done
            history_step[slot] = step
            count[s] += 1
        scalars[END] = max(scalars[END], done)
        if record:
            n = scalars[RECORDED]
            if n < len(rec_row):
                rec_row[n] = r
                rec_start[n] = start
                rec_end[n] = end
                rec_wait[n] = start - issue
                rec_reason[n] = reason
                rec_critical[n] = critical
                scalars[RECORDED] = n + 1
    if scalars[N_GAPS] > 0:
        horizon = NEVER
        for i in range(len(rings)):
            if rings[i]:
                horizon = min(horizon, free[N_ENGINES + i])
        _prune(horizon, gap_start, gap_end, scalars)


@numba.njit(cache=True, nogil=True)
def _snapshot(out, free, count, history, offset, mask, gap_start, gap_end, scalars):  # type: ignore[no-untyped-def]
    """Everything that later rows depend on, oldest semaphore values first by age, into `out`."""
    k = 0
    for q in range(len(free)):
        out[k] = free[q]
        k += 1
    for s in range(len(count)):
        for age in range(mask[s] + 1):
            value = count[s] - age
            out[k] = history[offset[s] + ((value - 1) & mask[s])] if value > 0 else -1
            k += 1
    for i in range(MAX_GAPS):
        out[k] = gap_start[i] if i < scalars[N_GAPS] else -1
        out[k + 1] = gap_end[i] if i < scalars[N_GAPS] else -1
        k += 2
    out[k] = scalars[PIPE_END]


@numba.njit(cache=True, nogil=True)
def _shift(before, after, count_before, count, mask, free_used, n_free):  # type: ignore[no-untyped-def]
    """The one time shift between two snapshots, -1 when there is none.

    What the loop does not touch may stay; everything else must have moved by the same amount.
    """
    shift = np.int64(-1)
    k = 0
    for q in range(n_free):
        if free_used[q]:
            moved = after[k] - before[k]
            if shift < 0:
                shift = moved
            elif moved != shift:
                return np.int64(-1)
        k += 1
    for s in range(len(count)):
        touched = count[s] != count_before[s]
        for _ in range(mask[s] + 1):
            if touched and (before[k] < 0 or after[k] - before[k] != shift):
                return np.int64(-1)
            k += 1
    while k < len(after):
        if (before[k] < 0) != (after[k] < 0):
            return np.int64(-1)
        # DMA engines that were never used stay at 0.
        unused = after[k] == 0 and before[k] == 0
        if after[k] >= 0 and not unused and after[k] - before[k] != shift:
            return np.int64(-1)
        k += 1
    return shift


@numba.njit(cache=True, nogil=True)
def _jump(  # type: ignore[no-untyped-def]
    times, shift, count_before, scalars_before, busy_before, stall_before, free, free_used, last_step, count, history,
    history_step, offset, mask, gap_start, gap_end, scalars, busy, stall, scratch, scratch_step,
):  # fmt: skip
    """Advance the state by `times` periods."""
    move = times * shift
    steps = times * (scalars[STEP] - scalars_before[STEP])
    for q in range(len(free)):
        if free_used[q]:
            free[q] += move
            last_step[q] += steps
        busy[q] += times * (busy[q] - busy_before[q])
        for reason in range(N_REASONS):
            stall[q, reason] += times * (stall[q, reason] - stall_before[q, reason])
    for s in range(len(count)):
        by = count[s] - count_before[s]
        if by == 0:
            continue
        n = mask[s] + 1
        for age in range(n):
            slot = offset[s] + ((count[s] - age - 1) & mask[s])
            scratch[age] = history[slot]
            scratch_step[age] = history_step[slot]
        count[s] += times * by
        for age in range(n):
            slot = offset[s] + ((count[s] - age - 1) & mask[s])
            history[slot] = scratch[age] + move
            history_step[slot] = scratch_step[age] + steps
    for i in range(scalars[N_GAPS]):
        gap_start[i] += move
        gap_end[i] += move
    if scalars[PIPE_END] > 0:
        scalars[PIPE_END] += move
    scalars[TRAFFIC] += times * (scalars[TRAFFIC] - scalars_before[TRAFFIC])
    scalars[STEP] += steps
    scalars[END] += move


@numba.njit(cache=True, nogil=True)
def _periods(remaining, traffic, traffic_before, threshold):  # type: ignore[no-untyped-def]
    """Whole periods that can be jumped over: up to the end of the loop or to the change of the DMA rate."""
    if traffic_before < threshold <= traffic:
        return np.int64(0)
    times = remaining // PERIOD
    if traffic < threshold and traffic > traffic_before:
        times = min(times, (threshold - traffic) // (traffic - traffic_before))
    return times


@numba.njit(cache=True, nogil=True)
def sweep(  # type: ignore[no-untyped-def]
    resource, occupation, latency, work, work_large, size, inc, wait_first, wait_semaphore, wait_lag, wait_reason,
    wait_hop, offset, mask, loop_first, loop_length, loop_count, block_first, block_length, block_count, threshold,
    n_resources, history_length, extrapolate, record, rec_row, rec_start, rec_end, rec_wait, rec_reason, rec_critical,
):  # fmt: skip
    """Schedule a whole program: (end in ps, busy ps per resource, stall ps per resource and reason, recorded rows)."""
    free = np.zeros(n_resources, np.int64)
    last_step = np.full(n_resources, -1, np.int64)
    busy = np.zeros(n_resources, np.int64)
    stall = np.zeros((n_resources, N_REASONS), np.int64)
    count = np.zeros(len(offset), np.int64)
    history = np.zeros(history_length, np.int64)
    history_step = np.zeros(history_length, np.int64)
    gap_start = np.zeros(MAX_GAPS + 1, np.int64)
    gap_end = np.zeros(MAX_GAPS + 1, np.int64)
    scalars = np.zeros(N_SCALARS, np.int64)
    n_rings = n_resources - N_ENGINES

    width = n_resources + history_length + 2 * MAX_GAPS + 1
    # Index 0: the loop; index 1: the block around it.
    before = np.zeros((2, width), np.int64)
    after = np.zeros(width, np.int64)
    count_before = np.zeros((2, len(offset)), np.int64)
    scalars_before = np.zeros((2, N_SCALARS), np.int64)
    busy_before = np.zeros((2, n_resources), np.int64)
    stall_before = np.zeros((2, n_resources, N_REASONS), np.int64)
    scratch = np.zeros(history_length + 1, np.int64)
    scratch_step = np.zeros(history_length + 1, np.int64)
    used = np.zeros((2, n_resources), np.bool_)
    # Rings that a block or a later one uses: gaps before all of them are out of reach.
    rings_from = np.zeros((len(block_first) + 1, n_rings), np.bool_)
    for b in range(len(block_first) - 1, -1, -1):
        rings_from[b, :] = rings_from[b + 1]
        for loop in range(block_first[b], block_first[b] + block_length[b]):
            for r in range(loop_first[loop], loop_first[loop] + loop_length[loop]):
                if resource[r] >= N_ENGINES:
                    rings_from[b, resource[r] - N_ENGINES] = True

    for b in range(len(block_first)):
        loops_from = block_first[b]
        loops_to = loops_from + block_length[b]
        rings = rings_from[b]
        used[1, :] = False
        for loop in range(loops_from, loops_to):
            for r in range(loop_first[loop], loop_first[loop] + loop_length[loop]):
                used[1, resource[r]] = True
        outer = 0
        since_outer = 0
        have_outer = False
        while outer < block_count[b]:
            for loop in range(loops_from, loops_to):
                first = loop_first[loop]
                last = first + loop_length[loop]
                used[0, :] = False
                for r in range(first, last):
                    used[0, resource[r]] = True
                inner = 0
                since = 0
                have = False
                while inner < loop_count[loop]:
                    _rows(
                        first, last, resource, occupation, latency, work, work_large, size, inc, wait_first,
                        wait_semaphore, wait_lag, wait_reason, wait_hop, offset, mask, threshold, rings, free,
                        last_step, count, history, history_step, gap_start, gap_end, scalars, busy, stall,
                        record, rec_row, rec_start, rec_end, rec_wait, rec_reason, rec_critical,
                    )  # fmt: skip
                    inner += 1
                    since += 1
                    full = record and scalars[RECORDED] < len(rec_row)
                    if extrapolate and not full and loop_count[loop] > 3 * PERIOD and since == PERIOD:
                        since = 0
                        _snapshot(after, free, count, history, offset, mask, gap_start, gap_end, scalars)
                        if have:
                            shift = _shift(before[0], after, count_before[0], count, mask, used[0], n_resources)
                            times = _periods(
                                loop_count[loop] - inner, scalars[TRAFFIC], scalars_before[0, TRAFFIC], threshold
                            )
                            # The last result must move along too, or it belongs to something that the loop overtakes.
                            if times > 0 and shift >= 0 and scalars[END] - scalars_before[0, END] == shift:
                                _jump(
                                    times, shift, count_before[0], scalars_before[0], busy_before[0], stall_before[0],
                                    free, used[0], last_step, count, history, history_step, offset, mask, gap_start,
                                    gap_end, scalars, busy, stall, scratch, scratch_step,
                                )  # fmt: skip
                                inner += times * PERIOD
                                have = False
                                continue
                        before[0, :] = after
                        count_before[0, :] = count
                        scalars_before[0, :] = scalars
                        busy_before[0, :] = busy
                        stall_before[0, :, :] = stall
                        have = True
            outer += 1
            since_outer += 1
            full = record and scalars[RECORDED] < len(rec_row)
            if extrapolate and not full and block_count[b] > 3 * PERIOD and since_outer == PERIOD:
                since_outer = 0
                _snapshot(after, free, count, history, offset, mask, gap_start, gap_end, scalars)
                if have_outer:
                    shift = _shift(before[1], after, count_before[1], count, mask, used[1], n_resources)
                    times = _periods(block_count[b] - outer, scalars[TRAFFIC], scalars_before[1, TRAFFIC], threshold)
                    if times > 0 and shift >= 0 and scalars[END] - scalars_before[1, END] == shift:
                        _jump(
                            times, shift, count_before[1], scalars_before[1], busy_before[1], stall_before[1], free,
                            used[1], last_step, count, history, history_step, offset, mask, gap_start, gap_end,
                            scalars, busy, stall, scratch, scratch_step,
                        )  # fmt: skip
                        outer += times * PERIOD
                        have_outer = False
                        continue
                before[1, :] = after
                count_before[1, :] = count
                scalars_before[1, :] = scalars
                busy_before[1, :] = busy
                stall_before[1, :, :] = stall
                have_outer = True
    return scalars[END], busy, stall, scalars[RECORDED], scalars[STEP]
