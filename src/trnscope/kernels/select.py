"""Top-k and sort.

Top-k of a row runs on the row's partition: each round finds the eight largest, their positions, and removes them;
rows longer than the search width are searched in pieces and the pieces' results once more. Sorting is counted as a
bitonic network over all partitions.
"""

import math

from trnscope.core.isa import VECTOR
from trnscope.graph.spec import OpSpec
from trnscope.kernels.context import Context, widest
from trnscope.kernels.pointwise import base
from trnscope.kernels.stages import Lowering, Pass, TiledStage

TOPK = frozenset({"topk", "kthvalue", "median", "nanmedian", "mode"})
SORT = frozenset({"sort", "argsort", "msort", "unique", "_unique2", "unique_dim", "unique_consecutive", "quantile"})

FOUND_PER_ROUND = 8
"""Width of max8, find_index8 and match_replace."""
SEARCH_WIDTH = 16384
"""Longest row that one instruction searches (NKI ISA: max8 takes up to 16,384 elements per partition)."""


def handles(op: OpSpec) -> bool:
    """Whether this family lowers `op`."""
    return base(op) in TOPK | SORT and bool(op.inputs)


def lower(op: OpSpec, context: Context) -> Lowering:
    """The lowering of an op that `handles` accepted."""
    tensor = op.inputs[0]
    dim = op.scalar("dim", -1)
    rank = len(tensor.shape)
    axis = int(dim) % rank if isinstance(dim, int) and rank and -rank <= dim < rank else rank - 1
    width = max(1, tensor.shape[axis]) if rank else 1
    rows = max(1, tensor.numel // width)
    if base(op) in SORT:
        return _sort(op, width, context)
    wanted = op.scalar("k", width if base(op) == "mode" else (width + 1) // 2)
    k = max(1, min(width, wanted if isinstance(wanted, int) else 1))
    return _topk(op, width, rows, k, context)


def _topk(op: OpSpec, width: int, rows: int, k: int, context: Context) -> Lowering:
    tensor = op.inputs[0]
    rounds = -(-k // FOUND_PER_ROUND)
    pieces = -(-width // SEARCH_WIDTH)
    merged = k * pieces if pieces > 1 or k > FOUND_PER_ROUND else 0
    searched = (width + merged) / width
    each = context.value("max8_cycles") * searched
    passes = [Pass(VECTOR, "MAX8", each * rounds, 1.0), Pass(VECTOR, "FIND_INDEX8", each * rounds, 1.0)]
    if rounds > 1:
        passes.append(Pass(VECTOR, "MATCH_REPLACE", each * (rounds - 1), 0.0))
    stage = TiledStage(
        label=op.name,
        elements=tensor.numel,
        item_bytes=widest((tensor,)),
        inputs=(context.operand(0, tensor),),
        outputs=tuple(context.operand(i, t) for i, t in enumerate(op.outputs)),
        passes=tuple(passes),
        units=rows,
        lanes=min(rows, round(context.value("sbuf_partitions"))),
    )
    return Lowering("select", "single-witness", (stage,), launches=2)


def _sort(op: OpSpec, width: int, context: Context) -> Lowering:
    tensor = op.inputs[0]
    levels = max(1, math.ceil(math.log2(max(2, width))))
    steps = levels * (levels + 1) // 2
    compare = context.value("tensor_tensor_cycles") * context.dtype_factor(tensor.dtype)
    stage = TiledStage(
        label=op.name,
        elements=tensor.numel,
        item_bytes=widest((tensor,)),
        inputs=(context.operand(0, tensor),),
        outputs=tuple(context.operand(i, t) for i, t in enumerate(op.outputs)),
        passes=(Pass(VECTOR, "TENSOR_TENSOR", compare * 2 * steps, float(steps)),),
        units=max(1, tensor.numel),
    )
    return Lowering("select", "unseen", (stage,))
