"""Real samples of the emulating host process, taken by a daemon thread while a window is open."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import psutil

INTERVAL_S: Final = 0.02


class Process(Protocol):
    """The part of `psutil.Process` that is used."""

    def cpu_percent(self) -> float: ...
    def num_threads(self) -> int: ...
    def memory_info(self) -> "Memory": ...


class Memory(Protocol):
    """Result of `psutil.Process.memory_info`."""

    rss: int


@dataclass(slots=True)
class Samples:
    """Columns of `CpuUsage` and `HostMemUsage`. Times are Unix nanoseconds of the real host."""

    cpu_ns: list[int] = field(default_factory=list)
    cpu_percent: list[float] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    memory_ns: list[int] = field(default_factory=list)
    rss_bytes: list[int] = field(default_factory=list)


class Sampler:
    """Samples CPU use, memory or both from `start` to `stop`; one sample is always taken at the end.

    Args:
        cpu: sample CPU use.
        memory: sample resident memory.
        process: what is sampled, by default this process.
        clock_ns: Unix time, for tests.
    """

    def __init__(
        self,
        *,
        cpu: bool,
        memory: bool,
        interval_s: float = INTERVAL_S,
        process: Process | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._cpu, self._memory = cpu, memory
        self._interval_s = interval_s
        self._process: Process = psutil.Process() if process is None else process
        self._clock_ns = clock_ns
        self._samples = Samples()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trnscope-sampler", daemon=True)

    def start(self) -> None:
        if self._cpu:
            self._process.cpu_percent()  # use is counted from here on
        if self._cpu or self._memory:
            self._thread.start()

    def stop(self) -> Samples:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._take()
        return self._samples

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._take()

    def _take(self) -> None:
        samples = self._samples
        if self._cpu:
            samples.cpu_percent.append(self._process.cpu_percent())
            samples.threads.append(self._process.num_threads())
            samples.cpu_ns.append(self._clock_ns())
        if self._memory:
            samples.rss_bytes.append(self._process.memory_info().rss)
            samples.memory_ns.append(self._clock_ns())
