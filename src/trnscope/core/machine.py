"""What the scheduler needs to know of a physical core, in integer picoseconds, taken from the chip's figures."""

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trnscope.chips import Target
from trnscope.core.isa import N_ENGINES
from trnscope.core.program import CoreProgram
from trnscope.schema.vocabulary import ENGINES

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Machine:
    """One physical core and its share of what several cores have in common.

    Attributes:
        clock_khz: per engine, in the order of `ENGINES`, stretching included.
        issue_ps: per engine: occupied by an instruction beyond its cycles.
        latency_ps: per engine: from the end of the occupation to the result being visible.
        hop_ps: semaphore from one engine or ring to another.
        dma_latency_ps: from the last byte to the semaphore, issue included; transfers overlap it.
        dma_engines: DMA engines that share one transfer.
        dma_descriptor_ps: per descriptor and DMA engine.
        dma_element_ps: per run too short for anything else.
        dma_element_run_bytes, dma_efficient_run_bytes, dma_short_run_factor: when runs are short, and what it costs.
        dma_bytes_per_ns: all DMA engines together, at most the core's share of the HBM.
        dma_bytes_per_ns_large: the same beyond `dma_threshold_bytes` of traffic.
        dma_threshold_bytes: per physical core.
        preamble_ps, epilogue_ps: an execution before its first and after its last instruction.
    """

    clock_khz: tuple[int, ...]
    issue_ps: tuple[int, ...]
    latency_ps: tuple[int, ...]
    hop_ps: int
    dma_latency_ps: int
    dma_engines: int
    dma_descriptor_ps: int
    dma_element_ps: int
    dma_element_run_bytes: int
    dma_efficient_run_bytes: int
    dma_short_run_factor: float
    dma_bytes_per_ns: float
    dma_bytes_per_ns_large: float
    dma_threshold_bytes: int
    preamble_ps: int
    epilogue_ps: int

    def occupation_ps(self, program: CoreProgram) -> Int64:
        """How long each row occupies its engine; 0 for transfers."""
        engine = np.minimum(program.resource, N_ENGINES - 1)
        khz = np.asarray(self.clock_khz, np.int64)[engine]
        issue = np.asarray(self.issue_ps, np.int64)[engine]
        # cycles / kHz = ms; 1e9 ps in a ms. Whole and fractional part apart: no overflow, exact rounding.
        whole, rest = np.divmod(program.cycles, khz)
        busy = whole * 1_000_000_000 + (rest * 1_000_000_000 + khz // 2) // khz + issue
        return np.where(program.resource < N_ENGINES, busy, 0)

    def latencies_ps(self, program: CoreProgram) -> Int64:
        """From the end of each row's occupation to its result."""
        engine = np.minimum(program.resource, N_ENGINES - 1)
        latency = np.asarray(self.latency_ps, np.int64)[engine]
        return np.where(program.resource < N_ENGINES, latency, self.dma_latency_ps)

    def transfer_work_ps(self, program: CoreProgram) -> tuple[Int64, Int64]:
        """Time of each transfer row alone on the DMA engines: (within `dma_threshold_bytes`, beyond).

        Descriptors plus billed bytes. The descriptors are dealt to the DMA engines; fewer descriptors than engines
        leave some idle. Runs below `dma_efficient_run_bytes` reach `dma_short_run_factor` of the rate, runs below
        `dma_element_run_bytes` cost `dma_element_ps` each.
        """
        transfers = program.transfers
        index = program.transfer[program.transfer >= 0]
        descriptors = np.maximum(transfers.descriptors[index], 1)
        engines = np.minimum(descriptors, self.dma_engines)
        per_engine = (-(-descriptors // engines)).astype(np.float64)
        run = transfers.run_bytes[index]
        factor = np.where(run < self.dma_efficient_run_bytes, self.dma_short_run_factor, 1.0)
        # Picoseconds at one byte per nanosecond on the engines in use; exact up to 2**53 bytes.
        stream = transfers.billed_bytes[index] * 1000.0 * self.dma_engines / (factor * engines)
        each = per_engine * self.dma_descriptor_ps
        least = np.where(run < self.dma_element_run_bytes, per_engine * self.dma_element_ps, 0.0)
        works = []
        for rate in (self.dma_bytes_per_ns, self.dma_bytes_per_ns_large):
            work = np.maximum(each + stream / rate, least)
            works.append(np.rint(np.where(transfers.billed_bytes[index] > 0, work, 0.0)).astype(np.int64))
        return works[0], works[1]


@functools.lru_cache(maxsize=64)
def machine_of(target: Target) -> Machine:
    """The machine of one physical core of `target`."""
    chip = target.spec
    value = chip.value
    stretch = {"tensor": value("tensor_stretch")}

    def ps(name: str) -> int:
        return round(value(name) * 1000)

    dma = value("dma_engines") * value("dma_engine_bandwidth")
    share = value("hbm_bandwidth") / chip.cores_per_chip
    return Machine(
        clock_khz=tuple(round(value(f"{e}_clock") * 1e6 / stretch.get(e, 1.0)) for e in ENGINES),
        issue_ps=tuple(ps(f"{e}_issue") for e in ENGINES),
        latency_ps=tuple(ps(f"{e}_latency") for e in ENGINES),
        hop_ps=ps("semaphore_hop"),
        dma_latency_ps=ps("dma_latency"),
        dma_engines=round(value("dma_engines")),
        dma_descriptor_ps=ps("dma_descriptor"),
        dma_element_ps=ps("dma_element"),
        dma_element_run_bytes=round(value("dma_element_run")),
        dma_efficient_run_bytes=round(value("dma_efficient_run")),
        dma_short_run_factor=value("dma_short_run_factor"),
        dma_bytes_per_ns=min(dma * value("dma_efficiency"), share),
        dma_bytes_per_ns_large=min(dma * value("dma_efficiency_large"), share),
        dma_threshold_bytes=round(value("dma_efficiency_threshold") / 2),
        preamble_ps=ps("execution_preamble"),
        epilogue_ps=ps("execution_epilogue"),
    )
