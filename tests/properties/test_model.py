"""The model on random ops: a stated estimate for anything, never below a roofline, never beyond a memory."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trnscope.chips import Target
from trnscope.core.machine import machine_of
from trnscope.graph.spec import ITEM_BYTES, GraphNode, GraphSpec, OpSpec, TensorSpec, ValueRef
from trnscope.kernels import Modelled, model
from trnscope.kernels.attention import BACKWARD as ATTENTION_BACKWARD
from trnscope.kernels.attention import FORWARD as ATTENTION
from trnscope.kernels.convolution import BACKWARD, FORWARD
from trnscope.kernels.copy import OPS as COPIES
from trnscope.kernels.index import GATHERS, SCATTERS
from trnscope.kernels.matmul import OPS as PRODUCTS
from trnscope.kernels.norm import OPS as NORMS
from trnscope.kernels.pointwise import OPS as POINTWISE
from trnscope.kernels.reduction import OPS as REDUCTIONS
from trnscope.kernels.select import SORT, TOPK
from trnscope.kernels.softmax import OPS as SOFTMAX
from trnscope.kernels.streams import LOSSES, OPTIMIZERS, POOLS, RANDOM, SCANS
from trnscope.schema.vocabulary import BOUNDS

NAMES = sorted(
    POINTWISE | COPIES | PRODUCTS | NORMS | SOFTMAX | GATHERS | SCATTERS | SORT | TOPK | SCANS | RANDOM | POOLS
    | ATTENTION | ATTENTION_BACKWARD | FORWARD | BACKWARD | set(REDUCTIONS) | set(LOSSES) | set(OPTIMIZERS)
    | {"_foreach_add", "_foreach_mul", "fft_fft", "linalg_svd", "some_op_of_the_future"}
)  # fmt: skip
SIZES = st.sampled_from([0, 1, 2, 3, 7, 64, 127, 128, 129, 512, 1000, 4096, 2**20, 2**31])
TARGETS = st.sampled_from([Target("trn2"), Target("trn2", lnc=1), Target("trn1"), Target("inf2"), Target("trn3")])
QUICK = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def dense(dtype: str, shape: tuple[int, ...]) -> TensorSpec:
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * max(1, shape[d + 1])
    return TensorSpec(dtype, shape, tuple(strides))


@st.composite
def tensors(draw: st.DrawFn) -> TensorSpec:
    shape = tuple(draw(st.lists(SIZES, max_size=4)))
    tensor = dense(draw(st.sampled_from(sorted(ITEM_BYTES))), shape)
    strides = list(tensor.strides)
    if draw(st.booleans()) and len(shape) > 1:
        order = draw(st.permutations(range(len(shape))))
        return TensorSpec(tensor.dtype, tuple(shape[d] for d in order), tuple(strides[d] for d in order))
    if draw(st.booleans()) and shape:
        strides[draw(st.integers(0, len(shape) - 1))] = 0
    return TensorSpec(tensor.dtype, shape, tuple(strides), draw(st.sampled_from([0, 1, 64])))


SCALARS = st.lists(
    st.sampled_from(
        [
            ("dim", -1), ("dim", 0), ("dim", 7), ("dim", (0, 1)), ("dim", ()), ("k", 5), ("alpha", 2), ("groups", 0),
            ("normalized_shape", (128,)), ("is_causal", True), ("kernel_size", (3, 3)), ("train", False),
            ("kernel_size", 2), ("num_groups", 3), ("output_mask", (True, False, False)), ("transposed", True),
        ]
    ),
    max_size=3,
    unique_by=lambda pair: pair[0],
)  # fmt: skip


@st.composite
def ops(draw: st.DrawFn) -> OpSpec:
    inputs = tuple(draw(st.lists(tensors(), max_size=5)))
    outputs = tuple(draw(st.lists(tensors(), max_size=3)))
    mutated = (0,) if inputs and draw(st.booleans()) else ()
    if mutated and draw(st.booleans()):
        outputs = inputs[:1]
    name = draw(st.sampled_from(NAMES)) + draw(st.sampled_from(["", "_", ".out", ".Tensor"]))
    return OpSpec(f"aten::{name}", inputs, outputs, tuple(draw(SCALARS)), mutated)


def check(result: Modelled, target: Target) -> None:
    machine = machine_of(target)
    assert 0 < result.low_ns <= result.device_time_ns <= result.high_ns < 2**63
    assert result.bound in BOUNDS
    assert result.confidence in ("validated", "single-witness", "unseen")
    assert min(result.flops, result.hbm_read_bytes, result.hbm_write_bytes) >= 0
    assert len(result.program.cores) == target.physical_cores
    assert result.sbuf_peak_bytes <= target.spec.value("sbuf_bytes")
    assert result.psum_peak_bytes <= target.spec.value("psum_bytes")
    moved = result.hbm_read_bytes + result.hbm_write_bytes
    rate = max(machine.dma_bytes_per_ns, machine.dma_bytes_per_ns_large) * target.physical_cores
    assert result.device_time_ns >= math.floor(moved / rate)
    peak = 2 * 128 * 128 * target.spec.value("tensor_clock") * target.physical_cores
    on_tensor = sum(core.tensor_flops for core in result.program.cores)
    assert result.device_time_ns >= math.floor(on_tensor / (peak * target.spec.value("matmul_fp8_speedup")))
    for busy in result.engine_busy_ns:
        assert busy <= result.device_time_ns * target.physical_cores


@QUICK
@given(ops(), TARGETS)
def test_any_op_has_a_stated_estimate(op: OpSpec, target: Target) -> None:
    check(model(op, target), target)


@QUICK
@given(st.lists(ops(), max_size=5), st.data())
def test_any_graph_has_a_stated_estimate(nodes: list[OpSpec], data: st.DataObject) -> None:
    inputs = tuple(data.draw(st.lists(tensors(), min_size=1, max_size=3)))
    known = [ValueRef(-1, i) for i in range(len(inputs))]
    made = []
    for position, op in enumerate(nodes):
        sources = tuple(data.draw(st.sampled_from(known)) for _ in op.inputs)
        made.append(GraphNode(op, sources, is_view=data.draw(st.booleans()) and bool(sources)))
        known += [ValueRef(position, i) for i in range(len(op.outputs))]
    outputs = tuple(data.draw(st.lists(st.sampled_from(known), max_size=3)))
    target = Target()
    check(model(GraphSpec("g", "forward", inputs, tuple(made), outputs), target), target)


@pytest.mark.parametrize("name", ["relu", "exp", "add.Tensor", "sum", "_softmax", "_fused_rms_norm"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_more_rows_never_take_less(name: str, dtype: str) -> None:
    last = 0
    for rows in (1, 2, 100, 128, 256, 1024, 4096, 16384, 65536):
        x = dense(dtype, (rows, 1024))
        inputs = (x, x) if name == "add.Tensor" else (x, dense(dtype, (1024,))) if "norm" in name else (x,)
        out = dense(dtype, (rows,)) if name == "sum" else x
        scalars = (("dim", (-1,)),) if name == "sum" else ()
        time = model(OpSpec(f"aten::{name}", inputs, (out,), scalars), Target()).device_time_ns
        assert time >= last
        last = time


def test_same_input_same_result_and_key() -> None:
    x = dense("float32", (300, 700))
    op = OpSpec("aten::exp", (x,), (x,))
    first, second = model(op, Target()), model(op, Target())
    assert (first.key, first.device_time_ns) == (second.key, second.device_time_ns)
    assert model(op, Target("trn2", lnc=1)).key != first.key
    assert model(OpSpec("aten::exp", (x,), (x,), (("a", 1),)), Target()).key != first.key
