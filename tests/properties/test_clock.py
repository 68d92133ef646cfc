"""The virtual clock against a naive implementation of the same rules, and its invariants, over random logs."""

import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnscope.core.clock import ClockCosts, ClockState, host_map, replay
from trnscope.schema.records import EXECUTION_KINDS, LOG_DTYPE, Flag, Kind

COSTS = ClockCosts(
    eager_dispatch_ns=60, compiled_launch_ns=95, launch_latency_ns=7, copy_overhead_ns=31, sync_overhead_ns=5
)
CALLS = {Kind.EVENT_RECORD, Kind.EVENT_WAIT, Kind.EVENT_SYNC, Kind.STREAM_SYNC, Kind.DEVICE_SYNC}


@dataclass
class NaiveThread:
    virtual: int = 0
    real: int = 0
    own_real: int = 0
    seen: int = -1
    owner: bool = False
    task: int | None = None
    lender: int | None = None
    doubtful_task: bool = False
    task_began: int = -1


@dataclass
class Naive:
    """The rules of `trnscope.core.clock` said once more, record by record, with dictionaries."""

    mode: str
    threads: dict[int, NaiveThread] = field(default_factory=dict)
    free: dict[tuple[int, int], int] = field(default_factory=dict)
    events: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def now(self, who: int, real: int) -> int:
        thread = self.threads[who]
        return thread.virtual + (max(0, real - thread.real) if self.mode == "measured" else 0)

    def owners(self, but: int, entry: int | None) -> list[int]:
        """Owner threads, latest first; outside of dispatch at `entry` where real times count."""
        found = [
            name
            for name, thread in self.threads.items()
            if name != but and thread.owner and (entry is None or self.mode == "modelled" or thread.own_real <= entry)
        ]
        return sorted(found, key=lambda name: -self.threads[name].seen)

    def begin(self, name: int, entry: int, task: int) -> tuple[int, bool, int | None]:
        known = name in self.threads
        me = self.threads.setdefault(name, NaiveThread())
        doubt, lender = False, None
        if task >= 0 and not me.owner:
            if me.task == task and me.lender is not None:
                lender = me.lender
                if self.mode == "measured" and self.threads[lender].own_real > entry:
                    lender, doubt = None, True
            elif me.task != task:
                found = self.owners(name, entry)
                lender = found[0] if found else None
                me.doubtful_task = len(found) > 1 and self.threads[found[1]].seen > me.task_began
                me.task_began = self.count
            doubt |= me.doubtful_task
        if lender is not None:
            start = self.now(lender, entry)
            return max(start, me.virtual) if known else start, doubt or self.threads[lender].seen != self.count, lender
        if known:
            return self.now(name, entry), doubt or me.seen != self.count, None
        parents = self.owners(name, None)
        if not parents:
            return (entry if self.mode == "measured" else 0), doubt, None
        overlaps = self.mode == "measured" and self.threads[parents[0]].real > entry
        return self.now(parents[0], entry), doubt or len(parents) > 1 or overlaps, None

    def cost(self, kind: Kind, entry: int, leave: int) -> int:
        if kind in (Kind.VIEW, Kind.MARK):
            return leave - entry if self.mode == "measured" else 0
        if kind == Kind.GRAPH:
            return COSTS.compiled_launch_ns
        if kind in (Kind.COPY_H2D, Kind.COPY_D2H, Kind.COPY_D2D):
            return COSTS.copy_overhead_ns
        return COSTS.sync_overhead_ns if kind in CALLS else COSTS.eager_dispatch_ns

    def step(self, r: np.void, duration: int) -> tuple[int, int, int, int, bool, int]:
        kind, name, task = Kind(int(r["kind"])), int(r["thread"]), int(r["graph_task"])
        entry, leave, aux = int(r["enter_ns"]), int(r["exit_ns"]), int(r["aux"])
        if self.mode == "paced":
            start, doubt, lender, submit = entry, False, None, entry
            me = self.threads.setdefault(name, NaiveThread())
        else:
            start, doubt, lender = self.begin(name, entry, task)
            me = self.threads[name]
            submit = start + self.cost(kind, entry, leave)
        line = (int(r["device"]), int(r["stream"]))
        first, last, wait = -1, -1, None
        if kind in EXECUTION_KINDS:
            first = max(submit + COSTS.launch_latency_ns, self.free.get(line, -1))
            last = self.free[line] = first + duration
            host_copy = kind in (Kind.COPY_H2D, Kind.COPY_D2H) and not r["flags"] & Flag.NON_BLOCKING
            wait = last if host_copy or r["flags"] & Flag.BLOCKING else None
        elif kind == Kind.EVENT_RECORD:
            self.events[aux] = max(submit + COSTS.launch_latency_ns, self.free.get(line, -1))
        elif kind == Kind.EVENT_WAIT and aux in self.events:
            self.free[line] = max(self.free.get(line, -1), self.events[aux])
        elif kind == Kind.EVENT_SYNC and aux in self.events:
            wait = self.events[aux]
        elif kind in (Kind.EVENT_WAIT, Kind.EVENT_SYNC):
            doubt = True
        elif kind == Kind.STREAM_SYNC:
            wait = self.free.get(line)
        elif kind == Kind.DEVICE_SYNC:
            wait = max((t for (device, _), t in self.free.items() if device == line[0]), default=None)
        end = leave if self.mode == "paced" else max(submit, -1 if wait is None else wait)
        self.count += 1
        me.virtual, me.real, me.own_real, me.seen = end, leave, leave, self.count
        me.task, me.lender, me.owner = task, lender, me.owner or task < 0
        if lender is not None:
            other = self.threads[lender]
            other.virtual, other.real, other.seen = end, max(leave, other.real), self.count
        return start, end, first, last, doubt and self.mode != "paced", -1 if lender is None else lender


@st.composite
def logs(draw: st.DrawFn, max_size: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Random logs in order of entry: threads do not overlap with themselves, but with each other."""
    n = draw(st.integers(1, max_size))
    log = np.zeros(n, LOG_DTYPE)
    durations = np.zeros(n, np.int64)
    now, busy_until, recorded = 1_000_000, {}, 0
    for i in range(n):
        thread = draw(st.sampled_from([11, 11, 22, 33]))
        worker = thread == 33 or draw(st.integers(0, 9)) == 0
        now = max(now + draw(st.integers(0, 300)), busy_until.get(thread, 0))
        leave = now + draw(st.integers(0, 400))
        busy_until[thread] = leave
        kind = draw(st.sampled_from([Kind.OP] * 6 + list(Kind)))
        if kind == Kind.EVENT_RECORD:
            aux, recorded = recorded, recorded + 1
        else:
            aux = draw(st.integers(0, max(recorded, 1)))
        log[i]["enter_ns"], log[i]["exit_ns"], log[i]["op_id"], log[i]["aux"] = now, leave, i, aux
        log[i]["thread"], log[i]["kind"] = thread, kind
        log[i]["graph_task"] = draw(st.integers(0, 2)) if worker else -1
        log[i]["device"], log[i]["stream"] = draw(st.integers(0, 1)), draw(st.integers(0, 1))
        log[i]["flags"] = draw(st.sampled_from([0, 0, Flag.NON_BLOCKING, Flag.BLOCKING]))
        durations[i] = draw(st.integers(0, 500))
    return log, durations


MODES = st.sampled_from(["measured", "modelled", "paced"])


@given(logs(), MODES)
@settings(max_examples=250, deadline=None)
def test_equals_the_naive_implementation(case: tuple[np.ndarray, np.ndarray], mode: str) -> None:
    log, durations = case
    naive = Naive(mode)
    expected = [naive.step(r, int(d)) for r, d in zip(log, durations, strict=True)]
    state, placed = replay(ClockState.initial(), log, durations, COSTS, mode)
    columns = (placed.host_start_ns, placed.host_end_ns, placed.device_start_ns, placed.device_end_ns)
    got = list(zip(*(c.tolist() for c in columns), placed.uncertain.tolist(), placed.lender.tolist(), strict=True))
    assert got == expected
    for event, time in naive.events.items():
        assert state.event_time_ns(event) == time
    for (device, stream), time in naive.free.items():
        assert (state.device_free_ns(device, stream) or -1) == time


@given(logs(), MODES, st.data())
@settings(max_examples=80, deadline=None)
def test_replay_in_pieces_equals_replay_at_once(
    case: tuple[np.ndarray, np.ndarray], mode: str, data: st.DataObject
) -> None:
    log, durations = case
    cut = data.draw(st.integers(0, len(log)))
    whole_state, whole = replay(ClockState.initial(), log, durations, COSTS, mode)
    middle, head = replay(ClockState.initial(), log[:cut], durations[:cut], COSTS, mode)
    end_state, tail = replay(pickle.loads(pickle.dumps(middle)), log[cut:], durations[cut:], COSTS, mode)
    assert end_state == whole_state
    for name in ("host_start_ns", "host_end_ns", "device_start_ns", "device_end_ns", "uncertain", "lender"):
        joined = np.concatenate([getattr(head, name), getattr(tail, name)])
        np.testing.assert_array_equal(joined, getattr(whole, name), err_msg=name)


@given(logs(), st.integers(0, 2**40), st.integers(1, 50))
@settings(max_examples=80, deadline=None)
def test_modelled_mode_does_not_see_real_time(case: tuple[np.ndarray, np.ndarray], shift: int, scale: int) -> None:
    log, durations = case
    other = log.copy()
    other["enter_ns"] = other["enter_ns"] * scale + shift
    other["exit_ns"] = other["enter_ns"] + (log["exit_ns"] - log["enter_ns"]) // 3
    _, first = replay(ClockState.initial(), log, durations, COSTS, "modelled")
    _, second = replay(ClockState.initial(), other, durations, COSTS, "modelled")
    for name in ("host_start_ns", "host_end_ns", "device_start_ns", "device_end_ns", "uncertain", "lender"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


@given(logs(), MODES)
@settings(max_examples=80, deadline=None)
def test_streams_are_in_order_and_nothing_is_clipped(case: tuple[np.ndarray, np.ndarray], mode: str) -> None:
    log, durations = case
    _, placed = replay(ClockState.initial(), log, durations, COSTS, mode)
    runs = np.isin(log["kind"], [int(k) for k in EXECUTION_KINDS])
    assert (placed.device_start_ns[~runs] == -1).all()
    np.testing.assert_array_equal((placed.device_end_ns - placed.device_start_ns)[runs], durations[runs])
    for device in (0, 1):
        for stream in (0, 1):
            mine = runs & (log["device"] == device) & (log["stream"] == stream)
            assert (placed.device_start_ns[mine][1:] >= placed.device_end_ns[mine][:-1]).all()
    if mode == "paced":
        submit = log["enter_ns"]
    else:
        cost = np.where(log["kind"] == Kind.GRAPH, COSTS.compiled_launch_ns, COSTS.eager_dispatch_ns)
        copies = np.isin(log["kind"], [Kind.COPY_H2D, Kind.COPY_D2H, Kind.COPY_D2D])
        submit = placed.host_start_ns + np.where(copies, COSTS.copy_overhead_ns, cost)
    assert (placed.device_start_ns >= submit + COSTS.launch_latency_ns)[runs].all()


@given(logs(), MODES)
@settings(max_examples=80, deadline=None)
def test_host_map_is_monotone_and_passes_through_the_records(case: tuple[np.ndarray, np.ndarray], mode: str) -> None:
    log, durations = case
    _, placed = replay(ClockState.initial(), log, durations, COSTS, mode)
    mapping = host_map(log, placed)
    grid = np.arange(int(log["enter_ns"].min()) - 50, int(log["exit_ns"].max()) + 50, 7)
    for thread in set(log["thread"].tolist()):
        assert (np.diff(mapping.map_times(thread, grid)) >= 0).all()
        knots_real, knots_virtual = mapping.knots[thread]
        assert (np.diff(knots_real) >= 0).all()
        assert (np.diff(knots_virtual) >= 0).all()
        assert set(placed.host_end_ns[log["thread"] == thread].tolist()) <= set(knots_virtual.tolist())
    if mode == "paced" and not (placed.lender >= 0).any():
        np.testing.assert_array_equal(mapping.map_times(int(log["thread"][0]), grid), grid)


def test_host_map_of_long_segments_keeps_nanoseconds() -> None:
    log = np.zeros(2, LOG_DTYPE)
    log["graph_task"] = -1
    start = 1_900_000_000_000_000_000
    log["enter_ns"] = [start, start + 3_600_000_000_000]
    log["exit_ns"] = log["enter_ns"] + 10
    _, placed = replay(ClockState.initial(), log, np.zeros(2, np.int64), COSTS, "measured")
    mapped = host_map(log, placed).map_times(0, [start + 1_800_000_000_007])
    assert mapped.tolist() == [start + 60 + 1_800_000_000_007 - 10]


@pytest.mark.parametrize("mode", ["measured", "modelled", "paced"])
def test_empty_log_changes_nothing(mode: str) -> None:
    state, placed = replay(ClockState.initial(), np.zeros(0, LOG_DTYPE), np.zeros(0, np.int64), COSTS, mode)
    assert state == ClockState.initial()
    assert len(placed.host_start_ns) == 0
    assert host_map(np.zeros(0, LOG_DTYPE), placed).map_times(1, [5, 9]).tolist() == [5, 9]
