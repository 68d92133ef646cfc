"""Stages to programs: tiles, double buffering, the split over physical cores."""

import math
from collections.abc import Sequence
from dataclasses import replace

from trnscope.core.builder import Buffer, CoreBuilder
from trnscope.core.isa import SYNC
from trnscope.core.program import CoreProgram, Program
from trnscope.kernels.context import Context
from trnscope.kernels.emit_matmul import emit_matmul
from trnscope.kernels.shares import billed_bytes, resident_buffer, share_of, slots
from trnscope.kernels.stages import Lowering, MatmulStage, Operand, Pass, Stage, TiledStage

SCRATCH = 2
"""Buffers between the passes of a tile, used in turn."""


STREAMING_SHARE = 0.75
"""Of SBUF for the buffers of a loop over tiles; the rest is for what is kept."""


def emit(name: str, lowering: Lowering, context: Context) -> Program:
    """One program of all stages in order, split over the physical cores of the target."""
    kernel, stages, launches = lowering.kernel, lowering.stages, lowering.launches
    n_cores = context.target.physical_cores
    split = "none" if n_cores == 1 else _split_of(stages, n_cores)
    if n_cores > 1 and _equal_shares(stages, n_cores):
        core = _emit_core(stages, 0, n_cores, context)
        return Program(name, kernel, split, (core,) * n_cores, launches)
    cores = tuple(_emit_core(stages, index, n_cores, context) for index in range(n_cores))
    return Program(name, kernel, split, cores, launches)


def _split_of(stages: Sequence[Stage], n_cores: int) -> str:
    kinds = dict.fromkeys(
        "none"
        if isinstance(stage, TiledStage) and not _splits(stage, n_cores)
        else stage.split_axis(n_cores)
        if isinstance(stage, MatmulStage)
        else "rows"
        for stage in stages
    )
    return "+".join(kinds) or "none"


def _splits(stage: TiledStage, n_cores: int) -> bool:
    return stage.splittable and stage.units >= n_cores and stage.elements >= n_cores


def _equal_shares(stages: Sequence[Stage], n_cores: int) -> bool:
    for stage in stages:
        if isinstance(stage, MatmulStage):
            if not stage.divides(n_cores):
                return False
            continue
        totals = [stage.units, stage.elements, *(o.bytes for o in (*stage.inputs, *stage.outputs) if not o.kept)]
        if not _splits(stage, n_cores) or any(total % n_cores for total in totals):
            return False
    return True


def _emit_core(stages: Sequence[Stage], core: int, n_cores: int, context: Context) -> CoreProgram:
    builder = CoreBuilder()
    residents: dict[int, Buffer] = {}
    for stage in stages:
        builder.region(stage.label)
        if isinstance(stage, MatmulStage):
            emit_matmul(builder, stage, core, n_cores, context, residents)
        else:
            _emit_tiled(builder, stage, core, n_cores, context, residents)
        builder.end_stage()
    return builder.build()


def tile_capacity(stage: TiledStage, elements: int, parts: Sequence[int], depth: int, context: Context) -> int:
    """Elements of a full tile: `tile_bytes` per partition, less when all streaming buffers together exceed SBUF.

    `parts` are the bytes of the streamed operands that belong to `elements`.
    """
    item = max(1, stage.item_bytes)
    wanted = stage.chunk or max(1, int(context.value("tile_bytes")) // item)
    per_element = sum(parts) / elements + SCRATCH * item
    room = STREAMING_SHARE * context.value("sbuf_bytes") / (per_element * depth)
    return max(1, min(elements, wanted * stage.lanes, int(room)))


def _emit_tiled(
    builder: CoreBuilder,
    stage: TiledStage,
    core: int,
    n_cores: int,
    context: Context,
    residents: dict[int, Buffer],
) -> None:
    if not _splits(stage, n_cores):
        if core:
            return
        n_cores = 1
    units = share_of(stage.units, core, n_cores)
    if units == 0 or stage.elements == 0:
        return
    elements = stage.elements * units // stage.units if stage.units else 0
    elements = max(1, elements)
    lanes_full = stage.chunk or max(1, int(context.value("tile_bytes")) // max(1, stage.item_bytes))
    depth = slots(min(elements, lanes_full * stage.lanes) * max(1, stage.item_bytes), context)
    parts = [share_of(o.bytes, core, n_cores) for o in stage.inputs if not (o.kept or o.resident)]
    full = tile_capacity(stage, elements, parts, depth, context)
    tiles = -(-elements // full)
    item = max(1, stage.item_bytes)
    largest = int(STREAMING_SHARE * context.value("sbuf_bytes")) // (depth * (len(parts) + SCRATCH))
    room = int((1 - STREAMING_SHARE) * context.value("sbuf_bytes")) // max(1, len(stage.inputs))

    kept: list[Buffer] = []
    streamed: list[tuple[Operand, Buffer, int]] = []
    for operand in (_aliased(o, stage.lanes, n_cores, context) for o in stage.inputs):
        if operand.resident:
            kept.append(resident_buffer(builder, residents, operand))
        elif operand.kept:
            kept.append(_load_kept(builder, operand, room, context))
        else:
            part = share_of(operand.bytes, core, n_cores)
            streamed.append((operand, builder.buffer(min(largest, part * full // elements), depth), part))
    places = min(SCRATCH, max(1, len(stage.passes)))
    scratch = [builder.buffer(min(largest, full * item), depth) for _ in range(places)]
    stored = [
        (_aliased(operand, stage.lanes, n_cores, context), share_of(operand.bytes, core, n_cores))
        for operand in stage.outputs
        if not operand.resident
    ]

    def tile(size: int, count: int, last: bool = False) -> None:
        """Rows of a tile of `size` elements; a last tile takes the bytes that earlier ones left."""
        builder.loop(count)
        for operand, into, total in streamed:
            moved = _tile_bytes(total, full, elements, last, tiles)
            _load(builder, operand, moved, into, stage.lanes)
        done = scratch[0]
        n = -(-size // stage.lanes)
        sources = [*(into for _, into, _ in streamed), *kept]
        for position, step in enumerate(stage.passes):
            done = scratch[position % len(scratch)]
            _compute(builder, step, n, size, sources, done, context, stage.serial)
            sources = [done]
        if stage.tile_latency_ns:
            cycles = round(stage.tile_latency_ns * context.value("sync_clock"))
            builder.compute(SYNC, "EVENT_SEMAPHORE", cycles, reads=[done], writes=[done])
        for operand in stage.outputs:
            if operand.resident:
                held = resident_buffer(builder, residents, operand)
                builder.compute(SYNC, "EVENT_SEMAPHORE", 0, reads=[done], writes=[held])
        for operand, total in stored:
            moved = _tile_bytes(total, full, elements, last, tiles)
            if moved:
                _store(builder, operand, moved, done if stage.passes else streamed[0][1], stage.lanes)
        builder.end_loop()

    if tiles > 1:
        tile(full, tiles - 1)
    tile(elements - full * (tiles - 1), 1, last=True)


def _aliased(operand: Operand, lanes: int, n_cores: int, context: Context) -> Operand:
    """A tensor in one piece is dealt to the partitions in equal parts, whose distance may alias in the HBM."""
    parts = lanes * n_cores
    if operand.kept or operand.resident or operand.run_bytes < operand.bytes or operand.bytes % parts:
        return operand
    factor = min(operand.bandwidth_factor, context.alias_factor(operand.bytes // parts))
    return replace(operand, bandwidth_factor=factor)


def _tile_bytes(total: int, tile_elements: int, elements: int, last: bool, tiles: int) -> int:
    regular = total * tile_elements // elements
    return total - regular * (tiles - 1) if last else regular


def _load_kept(builder: CoreBuilder, operand: Operand, room: int, context: Context) -> Buffer:
    """Read once; broadcast to all partitions, as far as `room` bytes allow."""
    lanes = round(context.value("sbuf_partitions"))
    into = builder.buffer(min(operand.bytes * lanes, room), 1)
    if operand.bytes:
        builder.loop(1)
        builder.load(
            operand.bytes,
            into,
            run_bytes=operand.run_bytes,
            variable=f"in{operand.index}",
            billed_bytes=billed_bytes(operand, operand.bytes),
            const=True,
        )
        builder.end_loop()
    return into


def _run(operand: Operand, moved: int, lanes: int) -> int:
    """A descriptor covers at most what one partition takes of a contiguous run."""
    return max(1, min(operand.run_bytes, -(-moved // lanes)))


def _load(builder: CoreBuilder, operand: Operand, moved: int, into: Buffer, lanes: int) -> None:
    if moved:
        builder.load(
            moved,
            into,
            run_bytes=_run(operand, moved, lanes),
            variable=f"in{operand.index}",
            billed_bytes=billed_bytes(operand, moved),
        )


def _store(builder: CoreBuilder, operand: Operand, moved: int, source: Buffer, lanes: int) -> None:
    builder.store(
        moved,
        source,
        run_bytes=_run(operand, moved, lanes),
        variable=f"out{operand.index}",
        billed_bytes=billed_bytes(operand, moved),
    )


def _compute(
    builder: CoreBuilder,
    step: Pass,
    n: int,
    size: int,
    sources: list[Buffer],
    done: Buffer,
    context: Context,
    serial: bool,
) -> None:
    points = max(1, math.ceil(n * step.share))
    cycles = max(round(context.value("min_issue_cycles")), math.ceil(points * step.cycles_per_element))
    builder.compute(
        step.engine,
        step.opcode,
        cycles + step.fixed_cycles,
        reads=sources,
        writes=[done],
        flops=round(size * step.flops_per_element),
        sbuf_read=sum(b.bytes for b in sources if b.depth > 1) or done.bytes,
        sbuf_write=done.bytes,
        serial=serial,
    )
