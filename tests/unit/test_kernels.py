"""Lowerings against hand counts: bytes, floating point operations, instructions, transfers, cycles."""

import math
from collections import Counter

import numpy as np
import pytest

from trnscope.chips import Target
from trnscope.core.isa import N_ENGINES, OPCODES
from trnscope.graph.spec import GraphNode, GraphSpec, OpSpec, Scalar, TensorSpec, ValueRef
from trnscope.kernels import Modelled, model
from trnscope.kernels.context import context_of
from trnscope.kernels.registry import has_kernel

ONE = Target("trn2", lnc=1)
TWO = Target("trn2", lnc=2)


def dense(dtype: str, *shape: int) -> TensorSpec:
    strides = np.cumprod([1, *reversed(shape[1:])])[::-1] if shape else []
    return TensorSpec(dtype, shape, tuple(int(s) for s in strides))


def run(
    name: str, inputs: list[TensorSpec], outputs: list[TensorSpec], target: Target = ONE, mutated: tuple[int, ...] = (),
    **scalars: Scalar,
) -> Modelled:  # fmt: skip
    return model(OpSpec(f"aten::{name}", tuple(inputs), tuple(outputs), tuple(scalars.items()), mutated), target)


def counts(result: Modelled, core: int = 0) -> Counter[str]:
    """Instructions by opcode on one physical core."""
    program = result.program.cores[core]
    total: Counter[str] = Counter()
    for row in np.flatnonzero(program.resource < N_ENGINES):
        total[OPCODES[program.opcode[row]]] += int(program.row_counts[row])
    return total


def cycles(result: Modelled, opcode: str) -> int:
    """Cycles of all instructions of one kind on the first physical core."""
    program = result.program.cores[0]
    own = program.opcode == OPCODES.index(opcode)
    return int((program.cycles * program.row_counts)[own].sum())


def test_pointwise() -> None:
    x = dense("float32", 256, 256)
    result = run("relu", [x], [x], TWO)
    assert (result.kernel, result.split, result.confidence) == ("pointwise", "rows", "validated")
    assert (result.hbm_read_bytes, result.hbm_write_bytes, result.flops) == (262_144, 262_144, 65_536)
    assert (result.instructions, result.transfers) == (2, 4)
    assert cycles(result, "TENSOR_SCALAR") == 65_536 // 2 // 128
    assert result.bound == "overhead"


def test_pointwise_fast_mode_and_number_of_tiles() -> None:
    half, full = dense("bfloat16", 2**20), dense("float32", 2**20)
    fast = run("add.Tensor", [half, half], [half])
    slow = run("add.Tensor", [full, full], [full])
    # 8 KiB per partition and tile: 4096 elements of 2 bytes, 2048 of 4
    assert counts(fast) == {"TENSOR_TENSOR": 2}
    assert counts(slow) == {"TENSOR_TENSOR": 4}
    assert cycles(fast, "TENSOR_TENSOR") == 8192 // 2
    assert cycles(slow, "TENSOR_TENSOR") == 8192 * 2
    assert (slow.hbm_read_bytes, slow.hbm_write_bytes, slow.transfers) == (2**23, 2**22, 12)
    assert cycles(run("exp", [full], [full]), "ACTIVATE") == 8192


def test_integers_are_cast_up_and_down() -> None:
    x = dense("int8", 2**20)
    assert cycles(run("relu", [x], [x]), "TENSOR_COPY") == 2 * math.ceil(8192 * 1.235)
    assert counts(run("add.Tensor", [x, x], [x]))["TENSOR_COPY"] == 3, "two operands up, one result down"


def test_sizes_that_the_partitions_do_not_divide_run_on_one() -> None:
    aligned, odd = dense("float32", 5_000_064), dense("float32", 5_000_001)
    fast, slow = run("sigmoid", [aligned], [aligned], TWO), run("sigmoid", [odd], [odd], TWO)
    assert counts(slow)["ACTIVATE"] == -(-2_500_001 // 512)
    assert slow.device_time_ns > 30 * fast.device_time_ns
    assert run("sigmoid", [dense("float32", 333)], [dense("float32", 333)], TWO).bound == "overhead"


def test_broadcast_row_is_read_once_by_each_core() -> None:
    x, row = dense("float32", 4096, 1024), dense("float32", 1024)
    result = run("mul.Tensor", [x, row], [x], TWO)
    assert result.hbm_read_bytes == 4096 * 1024 * 4 + 2 * 1024 * 4


def test_reduction() -> None:
    x = dense("float32", 512, 1000)
    result = run("sum.dim_IntList", [x], [dense("float32", 512)], dim=(-1,))
    assert (result.hbm_read_bytes, result.hbm_write_bytes, result.flops) == (2_048_000, 2_048, 512_000)
    assert counts(result) == {"TENSOR_REDUCE": 2, "TENSOR_SCALAR": 2}, "two tiles of 262,144 elements"
    across = run("sum.dim_IntList", [x], [dense("float32", 1000)], dim=(0,))
    assert counts(across)["MATMUL"] == 2, "partitions are summed by a product with ones"


def test_softmax() -> None:
    x = dense("float32", 128, 1000)
    result = run("_softmax", [x], [x], dim=-1)
    assert counts(result) == {"TENSOR_REDUCE": 1, "ACTIVATE": 1, "RECIPROCAL": 1, "TENSOR_SCALAR": 1}
    assert result.flops == 128_000 * (1 + 2 + 1) + 128


def test_rms_norm() -> None:
    x, rows = dense("float32", 1, 2048, 512), dense("float32", 1, 2048, 1)
    result = run("_fused_rms_norm", [x, dense("float32", 512)], [x, rows], TWO, normalized_shape=(512,))
    assert result.hbm_read_bytes == 2048 * 512 * 4 + 2 * 512 * 4
    assert result.hbm_write_bytes == 2048 * 512 * 4 + 2048 * 4
    # 1024 rows per core are 8 tiles of 128 rows
    assert counts(result) == {
        "ACTIVATE": 8, "BN_STATS": 8, "TENSOR_SCALAR": 8, "TENSOR_TENSOR": 8, "EVENT_SEMAPHORE": 8
    }  # fmt: skip


@pytest.mark.parametrize(("dtype", "passes", "item"), [("float16", 1, 2), ("float32", 4, 4)])
def test_matmul(dtype: str, passes: int, item: int) -> None:
    a, b, c = dense(dtype, 128, 256), dense(dtype, 256, 512), dense(dtype, 128, 512)
    result = run("mm", [a, b], [c])
    assert result.flops == 2 * 128 * 256 * 512
    assert (result.hbm_read_bytes, result.hbm_write_bytes) == ((128 * 256 + 256 * 512) * item, 128 * 512 * item)
    assert counts(result) == {"MATMUL": 2, "TRANSPOSE": 2, "TENSOR_COPY": 1, "ACTIVATE": 1}
    assert cycles(result, "MATMUL") == 2 * 512 * passes
    assert cycles(result, "TRANSPOSE") == 2 * 128 * passes
    assert result.transfers == 3


def test_matmul_remainders_and_bias() -> None:
    a, b, c = dense("float32", 200, 300), dense("float32", 300, 700), dense("float32", 200, 700)
    result = run("addmm", [dense("float32", 700), a, b], [c])
    assert result.flops == 2 * 200 * 300 * 700 + 200 * 700
    assert counts(result)["MATMUL"] == 2 * 3 * 2
    assert result.hbm_write_bytes == 200 * 700 * 4
    assert run("mm", [TensorSpec("float32", (200, 300), (1, 200)), b], [c]).program.cores[0].opcode.tolist().count(
        OPCODES.index("TRANSPOSE")
    ) == 0, "the contraction already lies across partitions"  # fmt: skip


def test_batches_are_split_over_the_cores() -> None:
    x = dense("bfloat16", 6, 64, 64)
    result = run("bmm", [x, x], [x], TWO)
    assert result.split == "batch"
    assert result.flops == 2 * 6 * 64**3
    assert counts(result)["MATMUL"] == 3


def test_convolution() -> None:
    x, w = dense("float16", 1, 128, 1024), dense("float16", 128, 128, 3)
    result = run("convolution", [x, w], [x], groups=1)
    assert result.flops == 2 * 128 * 128 * 3 * 1024
    assert counts(result) == {"MATMUL": 6, "ACTIVATE": 2}
    assert result.hbm_read_bytes == (128 * 1024 + 128 * 128 * 3) * 2
    depthwise = run("convolution", [x, dense("float16", 128, 1, 3)], [x], groups=128)
    assert counts(depthwise) == {"TENSOR_TENSOR": 3}


def test_attention() -> None:
    x = dense("float16", 1, 2, 128, 64)
    result = run("scaled_dot_product_attention", [x, x, x], [x])
    products, scores = 2 * 2 * 128 * 128 * 64, 2 * 128 * 128
    assert result.flops == 2 * products + 3 * scores
    assert (result.hbm_read_bytes, result.hbm_write_bytes) == (3 * x.bytes, x.bytes)
    causal = run("scaled_dot_product_attention", [x, x, x], [x], is_causal=True)
    assert causal.flops == result.flops // 2


def test_gather_and_scatter() -> None:
    table, index, out = dense("float32", 1000, 64), dense("int64", 100), dense("float32", 100, 64)
    gathered = run("embedding", [table, index], [out])
    assert (gathered.hbm_read_bytes, gathered.hbm_write_bytes) == (100 * 256 + 800, 25_600)
    assert gathered.kernel == "index"
    written = run("index_copy_", [table, index, out], [table], mutated=(0,), dim=0)
    assert written.hbm_write_bytes == 256_000 + 25_600, "the destination as a whole, then the rows"
    fixed = context_of(ONE).value("execution_preamble") + context_of(ONE).value("execution_epilogue")
    assert written.device_time_ns > 2 * fixed, "two programs"


def test_topk_rounds() -> None:
    result = run("topk", [dense("float32", 4096)], [dense("float32", 16), dense("int64", 16)], k=16, dim=-1)
    assert counts(result) == {"MAX8": 2, "FIND_INDEX8": 2, "MATCH_REPLACE": 2}, "two pieces of 2048 elements"
    assert cycles(result, "MAX8") == 2 * (4096 + 16), "two rounds over the row and the sixteen found"
    assert cycles(result, "MATCH_REPLACE") == 4096 + 16


def test_scan_random_and_optimizer() -> None:
    x = dense("float32", 128, 1000)
    assert cycles(run("cumsum", [x], [x], dim=-1), "SCAN") == 2000
    drawn = run("normal_", [x], [x], mutated=(0,))
    assert (drawn.hbm_read_bytes, drawn.hbm_write_bytes, drawn.confidence) == (0, 512_000, "unseen")
    flat, step = dense("float32", 1024), dense("float32")
    adam = run("_fused_adamw_", [flat, flat, flat, flat, step], [], mutated=(0, 2, 3, 4))
    assert (adam.hbm_read_bytes, adam.hbm_write_bytes) == (4 * 4096 + 4, 3 * 4096 + 4)
    assert adam.kernel == "optimizer"


def test_copies_pay_for_their_layout() -> None:
    x = dense("float32", 4096, 4096)
    turned = TensorSpec("float32", (4096, 4096), (1, 4096))
    straight, transposed = run("clone", [x], [x]), run("clone", [turned], [x])
    assert straight.hbm_read_bytes == transposed.hbm_read_bytes
    assert 1.7 < transposed.device_time_ns / straight.device_time_ns < 2.0
    narrow = dense("bfloat16", 4096, 4096)
    cast, wide = run("_to_copy", [narrow], [x]), run("relu", [x], [x])
    assert abs(cast.device_time_ns / wide.device_time_ns - 1) < 0.02, "a cast is billed at its wider side"


def test_unknown_ops_are_generic_and_say_so() -> None:
    x = dense("float32", 1024, 1024)
    op = OpSpec("aten::linalg_svd", (x,), (x,))
    result = model(op, TWO)
    assert not has_kernel(op)
    assert (result.kernel, result.confidence) == ("generic", "unseen")
    assert (result.hbm_read_bytes, result.hbm_write_bytes) == (2**22, 2**22)
    assert result.high_ns > 3 * result.device_time_ns


@pytest.mark.parametrize("shape", [(0,), (4, 0, 3), ()])
def test_nothing_to_do_still_costs_an_execution(shape: tuple[int, ...]) -> None:
    x = dense("float32", *shape)
    result = run("relu", [x], [x], TWO)
    assert 11_000 < result.device_time_ns < 16_000
    assert result.bound == "overhead"


def rms_graph(rows: int, width: int) -> GraphSpec:
    x, w, stat = dense("float32", rows, width), dense("float32", width), dense("float32", rows, 1)

    def node(name: str, inputs: list[TensorSpec], out: TensorSpec, *sources: ValueRef, **scalars: Scalar) -> GraphNode:
        return GraphNode(OpSpec(f"aten::{name}", tuple(inputs), (out,), tuple(scalars.items())), sources)

    given = ValueRef(-1, 0)
    nodes = (
        node("mul.Tensor", [x, x], x, given, given),
        node("mean.dim", [x], stat, ValueRef(0, 0), dim=(-1,), keepdim=True),
        node("add.Scalar", [stat], stat, ValueRef(1, 0), other=1e-6),
        node("rsqrt", [stat], stat, ValueRef(2, 0)),
        node("mul.Tensor", [x, stat], x, given, ValueRef(3, 0)),
        node("mul.Tensor", [x, w], x, ValueRef(4, 0), ValueRef(-1, 1)),
    )
    return GraphSpec("rms", "inference", (x, w), nodes, (ValueRef(5, 0),))


def test_compiled_graph_reads_and_writes_once() -> None:
    graph = rms_graph(2048, 4096)
    fused = model(graph, TWO)
    size = 2048 * 4096 * 4
    assert fused.kernel == "fused"
    assert (fused.hbm_read_bytes, fused.hbm_write_bytes) == (size + 2 * 4096 * 4, size)
    eager = [model(node.op, TWO) for node in graph.nodes]
    assert fused.flops == sum(m.flops for m in eager)
    assert fused.device_time_ns < 0.4 * sum(m.device_time_ns for m in eager)
    x, rows = dense("float32", 2048, 4096), dense("float32", 2048, 1)
    alone = run("_fused_rms_norm", [x, dense("float32", 4096)], [x, rows], TWO, normalized_shape=(4096,))
    assert fused.device_time_ns <= 1.05 * alone.device_time_ns


def test_compiled_graph_with_products_and_in_place_update() -> None:
    x, w = dense("float16", 256, 128), dense("float16", 128, 128)
    y = dense("float16", 256, 128)
    nodes = (
        GraphNode(OpSpec("aten::mm", (x, w), (y,)), (ValueRef(-1, 0), ValueRef(-1, 1))),
        GraphNode(OpSpec("aten::relu", (y,), (y,)), (ValueRef(0, 0),)),
        GraphNode(OpSpec("aten::copy_", (x, y), (x,), (), (0,), (0,)), (ValueRef(-1, 0), ValueRef(1, 0))),
    )
    result = model(GraphSpec("g", "forward", (x, w), nodes, (), mutated=(0,)), ONE)
    assert (result.hbm_read_bytes, result.hbm_write_bytes) == (x.bytes + w.bytes, x.bytes)
    assert counts(result)["MATMUL"] == 2
