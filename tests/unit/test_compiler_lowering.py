"""FX graphs become the specification the model reads. Graphs are traced on the CPU: no device is needed."""

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo.backends.common import aot_autograd  # noqa: E402

from trnscope.compiler.backend import decompositions  # noqa: E402
from trnscope.compiler.lowering import lower, tensor_spec  # noqa: E402
from trnscope.compiler.placement import Placement  # noqa: E402
from trnscope.errors import TrnscopeError  # noqa: E402
from trnscope.graph import GraphSpec, TensorSpec, ValueRef  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def lowered(function, *arguments, dynamic=False) -> dict[str, GraphSpec]:
    """Compile and run `function` once (backward too when it can); the specifications by kind."""
    specs = {}

    def compiler(kind):
        def compile_graph(gm, _inputs):
            specs[kind] = lower(gm, f"{kind}_graph", kind, Placement.of(gm))
            return gm

        return compile_graph

    backend = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        keep_inference_input_mutations=True,
    )
    result = torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)(*arguments)
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()
    return specs


def rms_norm(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


SIX_OPS = ["aten::mul.Tensor", "aten::mean.dim", "aten::add.Tensor", "aten::rsqrt"] + ["aten::mul.Tensor"] * 2


def names(spec: GraphSpec) -> list[str]:
    return [node.op.name for node in spec.nodes]


def test_rms_norm_arrives_as_its_six_ops():
    spec = lowered(rms_norm, torch.randn(4, 8), torch.randn(8))["inference"]

    x, weight = TensorSpec("float32", (4, 8), (8, 1)), TensorSpec("float32", (8,), (1,))
    column = TensorSpec("float32", (4, 1), (1, 1))
    assert spec.inputs == (x, weight)
    assert names(spec) == SIX_OPS
    assert [node.op.inputs for node in spec.nodes] == [(x, x), (x,), (column,), (column,), (x, column), (x, weight)]
    assert [node.sources for node in spec.nodes] == [
        (ValueRef(-1, 0), ValueRef(-1, 0)),
        (ValueRef(0, 0),),
        (ValueRef(1, 0),),
        (ValueRef(2, 0),),
        (ValueRef(-1, 0), ValueRef(3, 0)),
        (ValueRef(4, 0), ValueRef(-1, 1)),
    ]
    assert [node.op.outputs for node in spec.nodes] == [(x,), (column,), (column,), (column,), (x,), (x,)]
    assert spec.nodes[1].op.scalars == (("dim", (-1,)), ("keepdim", True), ("dtype", None))
    assert spec.nodes[2].op.scalars == (("other", 1e-6), ("alpha", 1))
    assert spec.outputs == (ValueRef(5, 0),)
    assert spec.mutated == ()
    assert not any(node.is_view for node in spec.nodes)


def test_fused_norms_are_taken_apart():
    x, weight = torch.randn(4, 8), torch.randn(8)
    rms = lowered(lambda x, w: torch.rms_norm(x, (8,), w, 1e-6), x, weight)["inference"]
    assert names(rms) == ["aten::pow.Tensor_Scalar", "aten::mean.dim", "aten::add.Scalar", *SIX_OPS[3:]]
    layer = lowered(lambda x, w: torch.layer_norm(x, (8,), w, w), x, weight)["inference"]
    assert names(layer) == [
        "aten::var_mean.correction",
        "aten::add.Tensor",
        "aten::rsqrt",
        "aten::sub.Tensor",
        "aten::mul.Tensor",
        "aten::mul.Tensor",
        "aten::add.Tensor",
    ]
    assert layer.nodes[0].op.outputs == (TensorSpec("float32", (4, 1), (1, 1)),) * 2
    assert layer.nodes[1].sources == (ValueRef(0, 0),)
    assert layer.nodes[3].sources == (ValueRef(-1, 0), ValueRef(0, 1))


def test_views_alias_and_keep_their_strides():
    spec = lowered(lambda x: x.t()[1:] * 2, torch.randn(4, 8))["inference"]

    assert names(spec) == ["aten::permute", "aten::slice.Tensor", "aten::mul.Tensor"]
    assert [node.is_view for node in spec.nodes] == [True, True, False]
    assert [node.op.aliased for node in spec.nodes] == [(0,), (0,), ()]
    assert spec.nodes[0].op.outputs == (TensorSpec("float32", (8, 4), (1, 8)),)
    assert spec.nodes[1].op.outputs == spec.nodes[2].op.inputs == (TensorSpec("float32", (7, 4), (1, 8), 1),)


def test_results_that_are_lists_of_views():
    def add_halves(x):
        return torch.add(*x.split(2))

    split, add = lowered(add_halves, torch.randn(4, 8))["inference"].nodes
    assert split.op.name == "aten::split_with_sizes"
    assert split.op.outputs == tuple(TensorSpec("float32", (2, 8), (8, 1), offset) for offset in (0, 16))
    assert split.is_view
    assert split.op.aliased == (0, 1)
    assert add.sources == (ValueRef(0, 0), ValueRef(0, 1))


def test_mutated_input():
    def step(x, y):
        x.view(-1).add_(y)
        return x.sum()

    spec = lowered(step, torch.zeros(4, 8), torch.ones(32))["inference"]
    assert spec.mutated == (0,)
    copy = next(node for node in spec.nodes if node.op.name == "aten::copy_")
    assert copy.op.mutated == (0,)
    assert copy.op.aliased == (0,)
    assert not copy.is_view
    assert copy.sources[0] == ValueRef(-1, 0)


def test_forward_and_backward_are_two_graphs():
    specs = lowered(rms_norm, torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True))

    assert set(specs) == {"forward", "backward"}
    assert [node.op.name for node in specs["forward"].nodes if not node.is_view] == SIX_OPS
    saved = len(specs["forward"].outputs) - 1
    assert len(specs["backward"].inputs) == saved + 1
    gradients = [specs["backward"].spec_of(value).shape for value in specs["backward"].outputs]
    assert gradients == [(4, 8), (8,)]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 2 + y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


def test_outputs_that_are_none_are_left_out():
    inputs = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    backward = lowered(Doubled.apply, *inputs)["backward"]
    assert names(backward) == ["aten::mul.Tensor"]
    assert backward.outputs == (ValueRef(0, 0),)


def test_constants_of_the_graph_are_read_like_inputs():
    class WithTable(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.arange(4.0)

        def forward(self, x):
            return x + self.table

    trace = torch.fx.experimental.proxy_tensor.make_fx(WithTable(), tracing_mode="fake", _allow_non_fake_inputs=True)
    gm = trace(torch.randn(4))
    placement = Placement.of(gm)
    spec = lower(gm, "g", "inference", placement)
    assert len(placement.constants) == 1
    assert spec.inputs == (TensorSpec("float32", (4,), (1,)),) * 2
    assert spec.nodes[-1].sources == (ValueRef(-1, 0), ValueRef(-1, 1))


def test_dtypes_are_named_without_prefix_and_devices_left_out():
    spec = lowered(lambda x: x.to(torch.bfloat16) * 2, torch.randn(4))["inference"]
    assert [node.op.outputs[0].dtype for node in spec.nodes] == ["bfloat16", "bfloat16"]
    assert spec.nodes[0].op.scalar("dtype") == "bfloat16"
    assert [name for name, _ in spec.nodes[0].op.scalars] == ["dtype", "non_blocking", "memory_format"]


def test_tensor_spec_of_a_strided_view():
    view = torch.zeros(6, 4, dtype=torch.int64)[1:, ::2].expand(3, 5, 2)
    assert tensor_spec(view) == TensorSpec("int64", (3, 5, 2), (0, 4, 2), 4)


def test_symbolic_sizes_are_refused():
    with pytest.raises(Exception, match=r"this graph has the symbolic size") as caught:
        lowered(lambda x: x * 2, torch.randn(4, 8), dynamic=True)
    assert isinstance(caught.value.inner_exception, TrnscopeError)
    assert "dynamic=False" in caught.value.inner_exception.hint


def test_calls_that_are_no_operators_are_named():
    graph = torch.fx.Graph()
    graph.output(graph.call_function(print, (graph.placeholder("x"),)))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    with pytest.raises(TrnscopeError, match=r"graph g: cannot lower <built-in function print> \(node print_1\)"):
        lower(gm, "g", "inference", Placement.of(gm))
