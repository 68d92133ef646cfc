"""Matrix products on the TensorEngine: blocks of rows stay in SBUF, columns stream past them.

The left operand of a block of rows is loaded once, transposed on the TensorEngine (contraction to the partitions)
and kept. For every 512 columns (one PSUM bank of fp32) the right operand's panel is loaded and all tiles of the block
accumulate over the contraction in PSUM; the result leaves through the epilogue. When a panel of the whole contraction
fits in SBUF the tiles follow each other (two PSUM banks in turn); otherwise pieces of the panel stream by and all tiles
of the block accumulate side by side.
"""

import math
from dataclasses import dataclass

from trnscope.core.builder import Buffer, CoreBuilder
from trnscope.core.isa import TENSOR
from trnscope.kernels.context import Context
from trnscope.kernels.shares import billed_bytes, resident_buffer, share_of, slots
from trnscope.kernels.stages import MatmulStage, Operand

BLOCK_SHARE = 0.35
"""Of SBUF for the left block; as much again for the panels of the right operand."""
MOST_PIECES = 256
"""Loads of one panel, beyond which they grow (contractions of more than half a million)."""
RAW_SHARE = 0.015
"""Of SBUF for one tile of the left operand before it is transposed."""
KEPT_SHARE = 0.04
"""Of SBUF for what the epilogue keeps (bias)."""
LEFT_AHEAD = 4
"""Tiles of the left operand that are loaded ahead, twice over."""
PIECE_ROWS = 2048
"""Contraction rows of one load of the right operand: 2 MiB at two bytes and 512 columns."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """One core's part of a stage, and how it is blocked."""

    stage: MatmulStage
    context: Context
    batch: int
    m: int
    n: int
    block_tiles: int
    left_depth: int
    left_bytes: int
    whole_panel: bool
    n_tile: int

    @property
    def k_tiles(self) -> int:
        return -(-self.stage.k // 128)

    @property
    def piece_rows(self) -> int:
        """Contraction rows of one load of the right operand; more for contractions that no memory holds."""
        return max(PIECE_ROWS, -(-self.stage.k // MOST_PIECES))


def emit_matmul(
    builder: CoreBuilder,
    stage: MatmulStage,
    core: int,
    n_cores: int,
    context: Context,
    residents: dict[int, Buffer],
) -> None:
    """Add one core's rows of a stage; none when another core does it all."""
    axis = stage.split_axis(n_cores)
    if axis == "none" and core:
        return
    batch = share_of(stage.batch, core, n_cores) if axis == "batch" else stage.batch
    m = share_of(stage.m, core, n_cores) if axis == "rows" else stage.m
    n = share_of(stage.n, core, n_cores) if axis == "columns" else stage.n
    if min(batch, m, n, stage.k) == 0:
        return
    plan = _plan(stage, context, batch, m, n)
    buffers = _buffers(builder, plan)
    room = int(KEPT_SHARE * context.value("sbuf_bytes")) // max(1, len(stage.extra))
    kept = [_load_kept(builder, o, room) for o in stage.extra if o.kept and not o.resident]
    kept += [resident_buffer(builder, residents, o) for o in (*stage.inputs,) if o.resident]
    block_rows = plan.block_tiles * 128
    full, rest = divmod(m, block_rows)
    if full:
        _emit_block(builder, plan, buffers, kept, residents, block_rows, full * batch)
    if rest:
        _emit_block(builder, plan, buffers, kept, residents, rest, batch)


@dataclass(slots=True)
class _Buffers:
    raw: Buffer
    left: Buffer
    right: Buffer
    psum: list[Buffer]
    turned: Buffer
    out: Buffer
    extra: Buffer


def _plan(stage: MatmulStage, context: Context, batch: int, m: int, n: int) -> _Plan:
    sbuf = context.value("sbuf_bytes")
    k = stage.k * stage.taps
    moving = round(context.value("tensor_moving"))
    n_tile = min(n, moving)
    panel = stage.k * n_tile * stage.item_bytes
    whole = 2 * panel <= BLOCK_SHARE * sbuf
    row_tile = 128 * k * stage.item_bytes
    # Pieces take less than a whole panel: the left block may have what they leave.
    pieces = 2 * min(PIECE_ROWS, stage.k) * n_tile * stage.item_bytes
    block_bytes = BLOCK_SHARE * sbuf if whole else (2 * BLOCK_SHARE) * sbuf - pieces
    room = max(1, int(block_bytes // row_tile))
    tiles = -(-m // 128)
    # Side by side, every tile has two banks; one pair is for the transposes.
    limit = tiles if whole else round(context.value("psum_banks")) // 2 - 1
    block = max(1, min(tiles, limit, room))
    depth = 2 if 2 * block * row_tile <= block_bytes else 1
    block_bytes = min(block * row_tile, int(block_bytes) // depth)
    return _Plan(stage, context, batch, m, n, block, depth, block_bytes, whole, n_tile)


def _buffers(builder: CoreBuilder, plan: _Plan) -> _Buffers:
    stage, sbuf = plan.stage, plan.context.value("sbuf_bytes")
    row_tile = 128 * stage.k * stage.taps * stage.item_bytes
    rows = stage.k if plan.whole_panel else min(plan.piece_rows, stage.k)
    piece = rows * plan.n_tile * stage.item_bytes
    bank = round(plan.context.value("psum_bank_bytes")) * 128
    result = 128 * plan.n_tile * max(4, stage.out_item_bytes)
    banks = 1 if plan.whole_panel else plan.block_tiles
    small = min(row_tile, int(sbuf * RAW_SHARE))
    return _Buffers(
        raw=builder.buffer(small, 2 * min(plan.block_tiles, LEFT_AHEAD)),
        left=builder.buffer(plan.left_bytes, plan.left_depth),
        right=builder.buffer(piece, slots(piece, plan.context)),
        psum=[builder.buffer(bank, 2, psum=True) for _ in range(banks)],
        turned=builder.buffer(bank, 2, psum=True),
        out=builder.buffer(result, slots(result, plan.context)),
        extra=builder.buffer(result if any(not o.kept for o in stage.extra) else 0, 2),
    )


def _load_kept(builder: CoreBuilder, operand: Operand, room: int) -> Buffer:
    into = builder.buffer(min(operand.bytes, room), 1)
    builder.loop(1)
    if operand.bytes:
        builder.load(operand.bytes, into, run_bytes=operand.run_bytes, variable=f"in{operand.index}", const=True)
    builder.end_loop()
    return into


def _part(total: int, share: int, whole: int) -> int:
    return total * share // whole if whole else 0


def _emit_block(
    builder: CoreBuilder,
    plan: _Plan,
    buffers: _Buffers,
    kept: list[Buffer],
    residents: dict[int, Buffer],
    rows: int,
    count: int,
) -> None:
    """A block of `rows` rows of the result, `count` times: load and transpose the left operand, then all columns."""
    tiles, rest = divmod(rows, 128)
    builder.block(count)
    if tiles:
        _emit_left(builder, plan, buffers, kept, 128, tiles)
    if rest:
        _emit_left(builder, plan, buffers, kept, rest, 1)
    heights = [128] * tiles + ([rest] if rest else [])
    full, last = divmod(plan.n, plan.n_tile)
    if full:
        _emit_columns(builder, plan, buffers, kept, residents, heights, plan.n_tile, full)
    if last:
        _emit_columns(builder, plan, buffers, kept, residents, heights, last, 1)
    builder.end_block()


def _cycles(plan: _Plan, columns: int) -> int:
    least = round(plan.context.value("min_issue_cycles"))
    return math.ceil(max(least, columns) * plan.stage.passes)


def _emit_left(builder: CoreBuilder, plan: _Plan, buffers: _Buffers, kept: list[Buffer], rows: int, count: int) -> None:
    """One tile of 128 rows of the left operand: load, transpose 128 x 128 at a time, copy out of PSUM."""
    stage = plan.stage
    size = _part(stage.left.bytes, rows, stage.m * stage.batch)
    slices = plan.k_tiles * stage.taps
    transpose = not stage.left_transposed
    into = buffers.raw if transpose else buffers.left
    builder.loop(count)
    if size and not stage.left.resident:
        builder.load(
            size,
            into,
            run_bytes=stage.left.run_bytes,
            variable=f"in{stage.left.index}",
            billed_bytes=billed_bytes(stage.left, size),
        )
    if transpose:
        reads = [into, *kept]
        builder.compute(TENSOR, "TRANSPOSE", _cycles(plan, 128), reads=reads, writes=[buffers.turned], repeat=slices)
        copy = plan.context.psum_copy(stage.item_bytes)
        least = round(plan.context.value("min_issue_cycles"))
        builder.compute(
            copy.engine,
            copy.opcode,
            max(least, math.ceil(min(512, slices * 128) * copy.cycles_per_element)),
            reads=[buffers.turned],
            writes=[buffers.left],
            repeat=-(-slices // 4),
        )
    builder.end_loop()


def _emit_columns(
    builder: CoreBuilder,
    plan: _Plan,
    buffers: _Buffers,
    kept: list[Buffer],
    residents: dict[int, Buffer],
    heights: list[int],
    columns: int,
    count: int,
) -> None:
    """`columns` columns of all tiles of a block, `count` times."""
    stage = plan.stage
    builder.loop(count)
    panel = _part(stage.right.bytes, columns, stage.n * stage.batch)
    pieces = -(-stage.k // plan.piece_rows)
    if plan.whole_panel:
        for piece in range(pieces):
            share = panel * (piece + 1) // pieces - panel * piece // pieces
            _load_right(builder, plan, buffers.right, share, columns, fill=piece == 0)
        for rows in heights:
            _products(builder, plan, buffers, kept, buffers.psum[0], rows, stage.k, columns, fresh=True)
            _epilogue(builder, plan, buffers, kept, residents, buffers.psum[0], rows, columns)
    else:
        done = 0
        for piece in range(pieces):
            share = panel * (piece + 1) // pieces - panel * piece // pieces
            k = min(plan.piece_rows, stage.k - done)
            done += k
            _load_right(builder, plan, buffers.right, share, columns, fill=True)
            for position, rows in enumerate(heights):
                psum = buffers.psum[position % len(buffers.psum)]
                _products(builder, plan, buffers, kept, psum, rows, k, columns, fresh=piece == 0)
        for position, rows in enumerate(heights):
            psum = buffers.psum[position % len(buffers.psum)]
            _epilogue(builder, plan, buffers, kept, residents, psum, rows, columns)
    builder.end_loop()


def _load_right(builder: CoreBuilder, plan: _Plan, into: Buffer, size: int, columns: int, fill: bool) -> None:
    right = plan.stage.right
    if size and not right.resident:
        builder.load(
            size,
            into,
            run_bytes=min(right.run_bytes, columns * plan.stage.item_bytes),
            variable=f"in{right.index}",
            billed_bytes=billed_bytes(right, size),
            fill=fill,
        )


def _products(
    builder: CoreBuilder,
    plan: _Plan,
    buffers: _Buffers,
    kept: list[Buffer],
    psum: Buffer,
    rows: int,
    k: int,
    columns: int,
    fresh: bool,
) -> None:
    """The accumulating products of one tile over `k` rows of the contraction."""
    cycles = _cycles(plan, columns)
    reads = [buffers.left, buffers.right, *kept]
    full, rest = divmod(k, 128)
    taps = plan.stage.taps
    for depth, slices in ((128, full * taps), (rest, taps if rest else 0)):
        if slices:
            builder.compute(
                TENSOR,
                "MATMUL",
                cycles,
                reads=reads,
                writes=[psum],
                repeat=slices,
                flops=2 * rows * depth * columns,
                sbuf_read=(128 + columns) * depth * plan.stage.item_bytes,
                sbuf_write=rows * columns * 4,
                accumulate=not fresh,
            )
            fresh = False


def _epilogue(
    builder: CoreBuilder,
    plan: _Plan,
    buffers: _Buffers,
    kept: list[Buffer],
    residents: dict[int, Buffer],
    psum: Buffer,
    rows: int,
    columns: int,
) -> None:
    """Out of PSUM through the epilogue's passes, and to HBM."""
    stage = plan.stage
    least = round(plan.context.value("min_issue_cycles"))
    sources: list[Buffer] = [psum]
    for operand in stage.extra:
        if not operand.kept and not operand.resident:
            size = _part(operand.bytes, rows * columns, stage.m * stage.n * stage.batch)
            if size:
                builder.load(size, buffers.extra, run_bytes=operand.run_bytes, variable=f"in{operand.index}")
                sources.append(buffers.extra)
    sources += kept
    for step in stage.epilogue:
        builder.compute(
            step.engine,
            step.opcode,
            max(least, math.ceil(columns * step.cycles_per_element)),
            reads=sources,
            writes=[buffers.out],
            flops=round(rows * columns * step.flops_per_element),
            sbuf_read=rows * columns * 4,
            sbuf_write=rows * columns * stage.out_item_bytes,
        )
        sources = [buffers.out]
    if stage.output.resident:
        held = resident_buffer(builder, residents, stage.output)
        last = stage.epilogue[-1]
        builder.compute(last.engine, "EVENT_SEMAPHORE", 0, reads=[buffers.out], writes=[held])
    else:
        size = _part(stage.output.bytes, rows * columns, stage.m * stage.n * stage.batch)
        if size:
            builder.store(
                size,
                buffers.out,
                run_bytes=min(stage.output.run_bytes, columns * stage.out_item_bytes),
                variable=f"out{stage.output.index}",
                billed_bytes=billed_bytes(stage.output, size),
            )
