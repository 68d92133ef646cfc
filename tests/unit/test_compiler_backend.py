"""torch.compile(backend="neuron"): values equal to eager on the CPU, one launch per graph."""

import logging

import pytest

torch = pytest.importorskip("torch")

from torch.profiler import ProfilerActivity, profile  # noqa: E402

from trnscope.compiler.registry import registry  # noqa: E402
from trnscope.errors import TrnscopeError  # noqa: E402

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(function, **kwargs):
    return torch.compile(function, backend="neuron", **{"fullgraph": True, "dynamic": False, **kwargs})


def graphs_of(run) -> list[str]:
    """Kinds of the graphs that `run` compiles, in order."""
    before = len(registry.graphs())
    run()
    return [graph.spec.kind for graph in registry.graphs()[before:]]


def launches(run) -> list[str]:
    """Names of the device events that `run` causes, in order of their start."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
        run()
        torch.neuron.synchronize()
    on_device = [e for e in prof.events() if e.device_type == torch.autograd.DeviceType.PrivateUse1]
    return [event.name for event in sorted(on_device, key=lambda event: event.time_range.start)]


def rms_norm(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


def assert_same(actual, expected):
    assert actual.device.type == "neuron"
    torch.testing.assert_close(actual.cpu(), expected)


def test_backend_is_listed():
    assert "neuron" in torch._dynamo.list_backends()


def test_inference_is_one_graph_and_equal_to_the_cpu():
    x, weight = torch.randn(16, 32), torch.randn(32)
    function = compiled(rms_norm)
    assert graphs_of(lambda: assert_same(function(x.to("neuron"), weight.to("neuron")), rms_norm(x, weight))) == [
        "inference"
    ]


def test_gradients_are_equal_to_the_cpu():
    x, weight = torch.randn(16, 32), torch.randn(32)
    cpu = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    device = [x.to("neuron").requires_grad_(), weight.to("neuron").requires_grad_()]
    rms_norm(*cpu).square().sum().backward()
    function = compiled(lambda a, b: rms_norm(a, b).square().sum())
    assert graphs_of(lambda: function(*device).backward()) == ["forward", "backward"]
    for expected, actual in zip(cpu, device, strict=True):
        assert_same(actual.grad, expected.grad)


def test_training_with_adamw():
    def train(device):
        torch.manual_seed(1)
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 2)
        )
        batches = torch.randn(4, 5, 8)
        model.to(device)
        forward = compiled(model) if device == "neuron" else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        losses = []
        for batch in batches.to(device):
            optimizer.zero_grad()
            loss = forward(batch).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [parameter.detach().cpu() for parameter in model.parameters()]

    expected_losses, expected = train("cpu")
    losses, parameters = train("neuron")
    assert losses == pytest.approx(expected_losses, rel=1e-5)
    torch.testing.assert_close(parameters, expected)


def test_compiled_optimizer_step():
    def step(device):
        parameters = [torch.linspace(-1, 1, 6, device="cpu").to(device).requires_grad_() for _ in range(2)]
        optimizer = torch.optim.AdamW(parameters, lr=torch.tensor(0.1))
        update = (
            torch.compile(optimizer.step, backend="neuron", dynamic=False) if device == "neuron" else optimizer.step
        )
        for scale in (1.0, 2.0):
            for parameter in parameters:
                parameter.grad = torch.full_like(parameter, scale)
            update()
        return [parameter.detach().cpu() for parameter in parameters]

    torch.testing.assert_close(step("neuron"), step("cpu"))


def test_inputs_are_mutated_in_place():
    def update(state, x):
        state.mul_(0.5).add_(x)
        return state.sum()

    state, x = torch.ones(4), torch.arange(4.0)
    on_device = state.to("neuron")
    result = compiled(update)(on_device, x.to("neuron"))
    assert_same(result, update(state, x))
    assert_same(on_device, state)


def test_mutation_of_a_tensor_that_needs_gradients():
    def update(x, buffer):
        buffer.copy_(x.detach() * 2)
        return (x * buffer).sum()

    x, buffer = torch.randn(4, requires_grad=True), torch.zeros(4)
    device_x, device_buffer = x.detach().to("neuron").requires_grad_(), buffer.to("neuron")
    update(x, buffer).backward()
    compiled(update)(device_x, device_buffer).backward()
    assert_same(device_x.grad, x.grad)
    assert_same(device_buffer, buffer)


def test_outputs_that_alias_inputs_and_each_other():
    def views(x):
        doubled = x * 2
        return x, x.t(), doubled, doubled[1:]

    x = torch.randn(3, 4)
    device_x = x.to("neuron")
    same, transposed, doubled, part = compiled(views)(device_x)
    for actual, expected in zip((same, transposed, doubled, part), views(x), strict=True):
        assert_same(actual, expected)
    transposed.zero_()
    assert device_x.cpu().abs().sum() == 0
    doubled.zero_()
    assert part.cpu().abs().sum() == 0


def test_graph_breaks_make_several_graphs():
    def broken(x):
        x = x * 2
        torch._dynamo.graph_break()
        return x + 1

    x = torch.randn(4)
    function = compiled(broken, fullgraph=False)
    assert graphs_of(lambda: assert_same(function(x.to("neuron")), broken(x))) == ["inference", "inference"]


@pytest.mark.parametrize("dynamic", [False, None])
def test_each_shape_compiles_a_static_graph(dynamic):
    weight = torch.randn(8)
    function = compiled(rms_norm, dynamic=dynamic)

    def run(rows):
        x = torch.randn(rows, 8)
        assert_same(function(x.to("neuron"), weight.to("neuron")), rms_norm(x, weight))

    assert graphs_of(lambda: [run(rows) for rows in (2, 3, 4, 3)]) == ["inference"] * 3
    assert [graph.spec.inputs[0].shape for graph in registry.graphs()[-3:]] == [(2, 8), (3, 8), (4, 8)]


def test_dynamic_shapes_are_refused():
    function = compiled(lambda x: x * 2, dynamic=True)
    with pytest.raises(Exception, match="compiles static shapes only") as caught:
        function(torch.ones(3, device="neuron"))
    assert isinstance(caught.value.inner_exception, TrnscopeError)


def test_model_name_names_the_graphs():
    function = compiled(lambda x: x * 2, options={"model_name": "tower"})
    function(torch.ones(3, device="neuron"))
    assert registry.graphs()[-1].spec.name.startswith("tower_inference_")
    assert registry.graphs()[-1].model_name == "tower"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modelname": "x"}, "unknown option 'modelname'"),
        ({"model_name": ""}, "option model_name is ''"),
        ({"dynamic": True}, "static shapes only"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(Exception, match=message):
        compiled(lambda x: x * 2, options=options)(torch.ones(3, device="neuron"))


def test_other_modes_warn_and_run(caplog):
    with caplog.at_level(logging.WARNING, logger="trnscope.compiler.backend"):
        result = compiled(lambda x: x * 2, mode="max-autotune")(torch.ones(3, device="neuron"))
    assert_same(result, torch.full((3,), 2.0))
    assert caplog.messages == ["Neuron backend does not support mode='max-autotune', falling back to default mode."]


def test_cpu_inputs_are_copied_to_the_device():
    x, weight = torch.randn(4, 8), torch.randn(8)
    assert_same(compiled(rms_norm)(x, weight), rms_norm(x, weight))


def test_cpu_model_trains_with_gradients_on_the_cpu():
    def gradient(wrap):
        torch.manual_seed(2)
        layer = torch.nn.Linear(4, 3)
        wrap(layer)(torch.ones(2, 4)).square().sum().backward()
        return layer.weight.grad

    actual = gradient(compiled)
    assert actual.device.type == "cpu"
    torch.testing.assert_close(actual, gradient(lambda layer: layer))


def test_cpu_inputs_are_mutated_too():
    state = torch.zeros(3)
    compiled(lambda s, x: s.add_(x).sum())(state, torch.ones(3))
    assert state.tolist() == [1.0, 1.0, 1.0]


def test_cpu_inputs_can_be_refused(monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY", "1")
    with pytest.raises(TrnscopeError, match="Input tensor at index 0 is on cpu device, expected neuron"):
        compiled(lambda x: x * 2)(torch.ones(3))


def test_results_go_back_to_the_cpu_on_request(monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_RETAIN_DEVICE_MODE", "1")
    result = compiled(lambda x: x * 2)(torch.ones(3))
    assert result.device.type == "cpu"
    assert result.tolist() == [2.0, 2.0, 2.0]


def test_graphs_that_create_their_tensors():
    assert_same(compiled(lambda: torch.arange(4, device="neuron") * 2)(), torch.arange(4) * 2)


def test_constants_in_the_graph():
    function = compiled(lambda x: x + torch.tensor([1.0, 2.0, 3.0], device=x.device))
    assert_same(function(torch.zeros(3, device="neuron")), torch.tensor([1.0, 2.0, 3.0]))


def test_second_device_compiles_anew_and_stays_there():
    if torch.neuron.device_count() < 2:
        pytest.skip("one logical core only")
    function = compiled(lambda x: x * 2)
    for device in ("neuron:0", "neuron:1"):
        assert function(torch.ones(2, device=device)).device == torch.device(device)


def test_each_graph_is_one_launch_under_its_name():
    x = torch.randn(4, 8, device="neuron", requires_grad=True)
    function = compiled(lambda x: x.square().sum(), options={"model_name": "square"})
    function(x).backward()
    forward, backward = (graph.spec.name for graph in registry.graphs()[-2:])
    assert forward.startswith("square_forward_")
    assert backward.startswith("square_backward_")

    names = launches(lambda: function(x).backward())
    assert [name for name in names if name.startswith("square_")] == [forward, backward]
    assert "aten::pow" not in " ".join(names)


def test_an_error_inside_leaves_recording_on():
    x = torch.ones(3, device="neuron")
    function = compiled(lambda x, i: x[i])
    function(x, torch.tensor([0], device="neuron"))
    with pytest.raises(IndexError):
        function(x, torch.tensor([7], device="neuron"))
    assert launches(lambda: x * 2) == ["aten::mul.Tensor"]
