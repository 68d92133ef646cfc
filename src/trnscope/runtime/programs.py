"""The program cache: which program an op or graph was lowered to, and how long it takes on the device.

The model is asked once per distinct specification. Records carry signature ids, so the usual way from a record to
its duration is one look into an array.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from trnscope.graph.spec import GraphSpec, OpSpec
from trnscope.runtime.signatures import GRAPH_BASE, SignatureSource, spec_of
from trnscope.schema.records import Kind

if TYPE_CHECKING:
    from trnscope.chips import Target
    from trnscope.kernels import Modelled

CAPACITY: Final = 4096
"""Programs kept; the least recently used is dropped first and modelled again when it comes back."""

UNKNOWN_NS: Final = -1

_LAUNCHES: Final = np.isin(np.arange(256), (Kind.OP, Kind.GRAPH, Kind.COLLECTIVE))
"""By kind: whether a record launches a program."""


@dataclass(slots=True)
class CacheStats:
    """How often a specification was known, was not, and pushed another out."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0


class ProgramCache:
    """Least recently used programs by specification."""

    def __init__(
        self,
        target: "Target",
        lower: "Callable[[OpSpec | GraphSpec, Target], Modelled]",
        capacity: int = CAPACITY,
    ) -> None:
        self.target = target
        self.stats = CacheStats()
        self._lower = lower
        self._capacity = capacity
        self._programs: OrderedDict[OpSpec | GraphSpec, Modelled] = OrderedDict()

    def __len__(self) -> int:
        return len(self._programs)

    def keys(self) -> frozenset[str]:
        """Keys of the programs held."""
        return frozenset(modelled.key for modelled in self._programs.values())

    def get(self, spec: OpSpec | GraphSpec) -> "Modelled":
        found = self._programs.get(spec)
        if found is not None:
            self.stats.hits += 1
            self._programs.move_to_end(spec)
            return found
        self.stats.misses += 1
        modelled = self._lower(spec, self.target)
        self._programs[spec] = modelled
        if len(self._programs) > self._capacity:
            self._programs.popitem(last=False)
            self.stats.evictions += 1
        return modelled


class _DurationTable:
    """Durations by consecutive ids, growing on demand."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._values = np.full(1024, UNKNOWN_NS, np.int64)

    def lookup(self, ids: npt.NDArray[np.uint32], compute: Callable[[int], int]) -> npt.NDArray[np.int64]:
        """Durations of `ids`; each unknown id is computed once. Ids below `first` are computed at each look-up."""
        index = ids.astype(np.int64) - self.first
        highest = int(index.max(initial=0))
        if highest >= len(self._values):
            grown = np.full(max(highest + 1, 2 * len(self._values)), UNKNOWN_NS, np.int64)
            grown[: len(self._values)] = self._values
            self._values = grown
        if int(index.min(initial=0)) < 0:
            found = self._values[np.maximum(index, 0)]
            found[index < 0] = UNKNOWN_NS
        else:
            found = self._values.take(index)
        if int(found.min(initial=0)) == UNKNOWN_NS:
            for signature in np.unique(ids[found == UNKNOWN_NS]):
                duration = compute(int(signature))
                found[ids == signature] = duration
                if signature >= self.first:
                    self._values[int(signature) - self.first] = duration
        return found


class Durations:
    """Device time of records, in integer nanoseconds.

    Ops and graphs take their program's time, host copies the chip's host link, copies between logical cores its core
    link; everything else takes none.
    """

    def __init__(self, source: SignatureSource, programs: ProgramCache) -> None:
        self.programs = programs
        self._source = source
        self._ops = _DurationTable(first=0)
        self._graphs = _DurationTable(first=GRAPH_BASE)
        self._highest = 0

    def program_of(self, signature: int) -> "Modelled | None":
        """The program of a signature; None for 0 and for a signature that was forgotten."""
        spec = spec_of(self._source, signature)
        return None if spec is None else self.programs.get(spec)

    def of(self, log: np.ndarray) -> npt.NDArray[np.int64]:
        """(n,) durations of the records of a log."""
        kind, signature = (np.ascontiguousarray(log[name]) for name in ("kind", "signature"))
        if not len(log):
            return np.zeros(0, np.int64)
        if kind.max() == Kind.OP and signature.min() > 0 and (highest := int(signature.max())) < GRAPH_BASE:
            # The usual portion of an eager program.
            self._highest = max(self._highest, highest)
            return self._ops.lookup(signature, self._program_ns)
        launches = _LAUNCHES[kind] & (signature != 0)
        ops = launches & (signature < GRAPH_BASE)
        graphs = launches & ~ops
        durations = np.zeros(len(log), np.int64)
        durations[ops] = self._ops.lookup(signature[ops], self._program_ns)
        durations[graphs] = self._graphs.lookup(signature[graphs], self._program_ns)
        self._highest = max(self._highest, int(signature[ops].max(initial=0)))
        size = log["aux"]
        link = self.programs.target.host
        for index in np.flatnonzero((kind == Kind.COPY_H2D) | (kind == Kind.COPY_D2H)):
            durations[index] = link.host_copy_ns(int(size[index]))
        for index in np.flatnonzero(kind == Kind.COPY_D2D):
            durations[index] = link.core_copy_ns(int(size[index]))
        return durations

    def forget(self) -> None:
        """Drops the durations of all ops: the extension starts a new generation of signatures."""
        self._ops = _DurationTable(first=self._highest + 1)

    def _program_ns(self, signature: int) -> int:
        program = self.program_of(signature)
        return 0 if program is None else program.device_time_ns
