"""From an op or a graph to its modelled execution on a target: the one entry point of this package."""

import functools
import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from trnscope.chips import Target
from trnscope.core.isa import N_ENGINES
from trnscope.core.machine import machine_of
from trnscope.core.program import Program
from trnscope.core.schedule import CoreSchedule, Schedule, schedule
from trnscope.graph.spec import GraphSpec, OpSpec
from trnscope.kernels.context import Context, context_of
from trnscope.kernels.emit import emit
from trnscope.kernels.fused import lower_graph
from trnscope.kernels.registry import lower
from trnscope.kernels.stages import Lowering, MatmulStage, TiledStage

MODEL_VERSION: Final = "1"
"""Changes whenever a prediction may change; part of every program's key."""

SIGMA_90: Final = 1.645
"""Standard deviations from the middle to either end of a 90 % interval."""

LONGEST_NS: Final = 2**62


@dataclass(frozen=True)
class Modelled:
    """The modelled execution of one op or graph. Times are integer nanoseconds.

    Attributes:
        key: content hash of the specification, target, calibration and model version.
        name: op or graph name.
        kernel: family that lowered it; `generic` when none of its own exists.
        split: what is divided among the physical cores.
        device_time_ns: start to end, union over the physical cores.
        low_ns, high_ns: 5 % and 95 % ends of the interval.
        bound: compute, memory, overhead or latency.
        confidence: validated, single-witness or unseen.
        flops: floating point operations.
        hbm_read_bytes, hbm_write_bytes: traffic of all physical cores.
        instructions, transfers: executed, all physical cores.
        sbuf_peak_bytes, psum_peak_bytes: most in use on one physical core.
    """

    key: str
    name: str
    kernel: str
    split: str
    device_time_ns: int
    low_ns: int
    high_ns: int
    bound: str
    confidence: str
    flops: int
    hbm_read_bytes: int
    hbm_write_bytes: int
    instructions: int
    transfers: int
    sbuf_peak_bytes: int
    psum_peak_bytes: int
    program: Program
    schedule: Schedule

    @cached_property
    def engine_busy_ns(self) -> tuple[int, ...]:
        """Busy time per engine, summed over the physical cores."""
        totals = [0] * N_ENGINES
        for core in self.schedule.cores:
            for engine, busy in enumerate(core.engine_busy_ps):
                totals[engine] += int(busy)
        return tuple(total // 1000 for total in totals)


def content_key(spec: OpSpec | GraphSpec, target: Target) -> str:
    """Stable hash of what a prediction depends on."""
    text = f"{MODEL_VERSION}|{target.calibration}|{target.chip}|{target.lnc}|{spec!r}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def model(spec: OpSpec | GraphSpec, target: Target) -> Modelled:
    """Lower, schedule and measure one op or graph.

    Never raises for an op that it does not know: kernel `generic`, confidence `unseen`.
    """
    context = context_of(target)
    lowering = lower_graph(spec, context) if isinstance(spec, GraphSpec) else lower(spec, context)
    work_ns = _roofline_ns(lowering, context)
    if work_ns is None:
        program = emit(spec.name, lowering, context)
    else:
        lowering = Lowering("generic", "unseen", ())
        program = emit(spec.name, lowering, context)
    plan = schedule(program, machine_of(target))
    total = -(-plan.total_ps // 1000) + (work_ns or 0)
    sigma = context.value(f"sigma_{lowering.confidence.replace('-', '_')}")
    return Modelled(
        key=content_key(spec, target),
        name=spec.name,
        kernel=lowering.kernel,
        split=program.split,
        device_time_ns=min(total, LONGEST_NS),
        low_ns=min(math.floor(total * math.exp(-SIGMA_90 * sigma)), LONGEST_NS),
        high_ns=min(math.ceil(total * math.exp(SIGMA_90 * sigma)), LONGEST_NS),
        bound=_bound(plan) if work_ns is None else "memory",
        confidence=lowering.confidence,
        flops=program.flops,
        hbm_read_bytes=program.hbm_read_bytes,
        hbm_write_bytes=program.hbm_write_bytes,
        instructions=program.instructions,
        transfers=program.transfers,
        sbuf_peak_bytes=program.sbuf_peak_bytes,
        psum_peak_bytes=program.psum_peak_bytes,
        program=program,
        schedule=plan,
    )


@functools.cache
def _peak_products_per_ns(context: Context) -> float:
    return context.value("tensor_rows") * context.value("tensor_columns") * context.value("tensor_clock")


def _roofline_ns(lowering: Lowering, context: Context) -> int | None:
    """Time at the roofline when the op is too large to build a program for (it fits in no memory); else None."""
    moved = products = 0
    for stage in lowering.stages:
        moved += sum(o.bytes for o in (*stage.inputs, *stage.outputs))
        if isinstance(stage, TiledStage):
            moved += stage.elements
        elif isinstance(stage, MatmulStage):
            products += stage.batch * stage.m * stage.k * stage.n * stage.taps
    if moved < 2**52 and products < 2**62:
        return None
    rate = machine_of(context.target).dma_bytes_per_ns * context.target.physical_cores
    return min(LONGEST_NS, max(int(moved / rate), int(products / _peak_products_per_ns(context))))


def _bound(plan: Schedule) -> str:
    """What the execution spends its time on.

    The largest busy resource names it when it is busy for half of the time between preamble and epilogue; otherwise
    the program waits for latencies. An execution that is mostly its fixed part is bound by overhead.
    """
    longest: CoreSchedule = max(plan.cores, key=lambda core: core.end_ps)
    if longest.end_ps <= plan.preamble_ps + plan.epilogue_ps:
        return "overhead"
    engines = int(longest.engine_busy_ps.max())
    dma = longest.dma_busy_ps
    if max(engines, dma) * 2 < longest.end_ps:
        return "latency"
    return "compute" if engines > dma else "memory"
