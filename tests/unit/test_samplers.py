"""Samples of the host process: which, how often, and that the thread ends."""

import itertools
import threading
import time
from types import SimpleNamespace

import psutil

from trnscope.profiling.samplers import Sampler


class FakeProcess:
    def __init__(self) -> None:
        self.percent = itertools.count(0)
        self.resident = itertools.count(1000, 1000)

    def cpu_percent(self) -> float:
        return float(next(self.percent))

    def num_threads(self) -> int:
        return 7

    def memory_info(self) -> SimpleNamespace:
        return SimpleNamespace(rss=next(self.resident))


def test_one_sample_at_the_end_of_a_short_window() -> None:
    clock = itertools.count(100)
    sampler = Sampler(cpu=True, memory=True, interval_s=60, process=FakeProcess(), clock_ns=lambda: next(clock))
    sampler.start()
    samples = sampler.stop()
    # The first value of psutil counts from the process's start: it is taken at `start` and thrown away.
    assert (samples.cpu_ns, samples.cpu_percent, samples.threads) == ([100], [1.0], [7])
    assert (samples.memory_ns, samples.rss_bytes) == ([101], [1000])


def test_only_what_was_asked_for() -> None:
    before = threading.active_count()
    sampler = Sampler(cpu=False, memory=False, process=FakeProcess())
    sampler.start()
    assert threading.active_count() == before
    samples = sampler.stop()
    assert (samples.cpu_ns, samples.memory_ns) == ([], [])
    sampler = Sampler(cpu=False, memory=True, interval_s=60, process=FakeProcess())
    sampler.start()
    assert sampler.stop().cpu_ns == []


def test_real_samples_of_this_process() -> None:
    sampler = Sampler(cpu=True, memory=True, interval_s=0.01)
    before = time.time_ns()
    sampler.start()
    while threading.active_count() and time.time_ns() < before + 100_000_000:
        time.sleep(0.01)
    samples = sampler.stop()
    assert len(samples.rss_bytes) >= 2
    assert before < samples.memory_ns[0] <= samples.memory_ns[-1] <= time.time_ns()
    assert samples.memory_ns == sorted(samples.memory_ns)
    assert 0.2 < samples.rss_bytes[-1] / psutil.Process().memory_info().rss < 5
    assert not any(thread.name == "trnscope-sampler" for thread in threading.enumerate())
