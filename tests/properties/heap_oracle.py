"""The scheduler's rules told a second time, as a plain event simulation: the oracle of the max-plus sweep.

An engine starts its next row when it is free and the row's semaphores have their values. A ring has one transfer in
service at a time; among the rings' transfers the DMA engines serve the one of the earliest row, and interrupt it when
an earlier one becomes ready.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable

from trnscope.core.isa import N_ENGINES
from trnscope.core.machine import Machine
from trnscope.core.program import CoreProgram


class HeapCore:
    """Event-driven simulation of one physical core."""

    def __init__(self, program: CoreProgram, machine: Machine) -> None:
        self.program = program
        self.machine = machine
        self.steps = list(program.expand())
        self.occupation = machine.occupation_ps(program)
        self.latency = machine.latencies_ps(program)
        within, beyond = machine.transfer_work_ps(program)
        moving = [r for r in range(len(program.resource)) if program.transfer[r] >= 0]
        self.work = {r: (int(within[i]), int(beyond[i])) for i, r in enumerate(moving)}
        self.start: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.finish = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self._now = 0
        self._signals: dict[int, list[int]] = defaultdict(list)
        self._queues: dict[int, list[int]] = defaultdict(list)
        self._idle: dict[int, bool] = defaultdict(lambda: True)
        self._ready: dict[int, int] = {}  # transfer step -> work left
        self._served_since = 0
        self._version = 0
        self._waits: dict[int, list[tuple[int, int]]] = {}
        self._cost: dict[int, int] = {}
        self._prepare()

    def _prepare(self) -> None:
        """Absolute semaphore values and transfer costs, in program order."""
        raised: dict[int, int] = defaultdict(int)
        traffic = 0
        program = self.program
        for step, row in enumerate(self.steps):
            first, last = program.wait_first[row], program.wait_first[row + 1]
            values = [
                (int(program.wait_semaphore[w]), raised[int(program.wait_semaphore[w])] - int(program.wait_lag[w]))
                for w in range(first, last)
            ]
            self._waits[step] = [(s, v) for s, v in values if v > 0]
            if row in self.work:
                self._cost[step] = self.work[row][traffic >= self.machine.dma_threshold_bytes]
                traffic += int(program.transfers.bytes[program.transfer[row]])
            if program.inc_semaphore[row] >= 0:
                raised[int(program.inc_semaphore[row])] += 1
            self._queues[int(program.resource[row])].append(step)

    def run(self) -> int:
        """Simulate to the end: the moment of the last result, in picoseconds."""
        for resource in list(self._queues):
            self._try(resource)
        while self._events:
            self._now, _, action = heapq.heappop(self._events)
            action()
        assert len(self.end) == len(self.steps), "a row never started"
        return self.finish

    def _at(self, moment: int, action: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._events, (moment, self._serial, action))

    def _try(self, resource: int) -> None:
        queue = self._queues[resource]
        if not queue or not self._idle[resource]:
            return
        step = queue[0]
        earliest = self._now
        for semaphore, value in self._waits[step]:
            if len(self._signals[semaphore]) < value:
                return
            source = int(self.program.semaphore_resource[semaphore])
            hop = self.machine.hop_ps if source != resource else 0
            earliest = max(earliest, self._signals[semaphore][value - 1] + hop)
        if earliest > self._now:
            self._at(earliest, lambda: self._try(resource))
            return
        queue.pop(0)
        self._idle[resource] = False
        if resource < N_ENGINES:
            self.start[step] = self._now
            row = self.steps[step]
            self._at(self._now + int(self.occupation[row]), lambda: self._done(step, resource))
        elif self._cost[step] == 0:
            self.start[step] = self._now
            self._at(self._now, lambda: self._done(step, resource))
        else:
            self._account()
            self._ready[step] = self._cost[step]
            self._serve()

    def _account(self) -> None:
        """Charge the time since the last change to the transfer in service."""
        if self._ready:
            current = min(self._ready)
            if self._now > self._served_since:
                self.start.setdefault(current, self._served_since)
            self._ready[current] -= self._now - self._served_since
        self._served_since = self._now

    def _serve(self) -> None:
        self._version += 1
        if self._ready:
            version, current = self._version, min(self._ready)
            self._at(self._now + self._ready[current], lambda: self._served(version, current))

    def _served(self, version: int, step: int) -> None:
        if version != self._version:
            return
        self._account()
        assert self._ready.pop(step) == 0
        self._done(step, int(self.program.resource[self.steps[step]]))
        self._serve()

    def _done(self, step: int, resource: int) -> None:
        row = self.steps[step]
        self.end[step] = self._now
        visible = self._now + int(self.latency[row])
        self.finish = max(self.finish, visible)
        semaphore = int(self.program.inc_semaphore[row])
        if semaphore >= 0:
            self._at(visible, lambda: self._signal(semaphore))
        self._idle[resource] = True
        self._try(resource)

    def _signal(self, semaphore: int) -> None:
        self._signals[semaphore].append(self._now)
        for resource in list(self._queues):
            self._try(resource)
