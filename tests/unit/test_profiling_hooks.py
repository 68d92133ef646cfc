"""Hooks of a window: module paths, optimizer phase, step marks, and that nothing of them stays."""

import pytest

torch = pytest.importorskip("torch")

from trnscope.profiling.hooks import WindowHooks  # noqa: E402


class FakeRecorder:
    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def set_current_module(self, module: int) -> int:
        self.calls.append(("module", module))
        return 0

    def set_optimizer_phase(self, on: bool) -> bool:
        self.calls.append(("optimizer", on))
        return False

    def record_mark(self, number: int) -> None:
        self.calls.append(("mark", number))


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.ReLU()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return torch.nn.Dropout()(x)  # no registered child


@pytest.fixture
def recorder() -> FakeRecorder:
    return FakeRecorder()


def test_modules_are_named_by_their_path_from_the_outermost_call(recorder: FakeRecorder) -> None:
    hooks = WindowHooks(recorder, modules=True)
    hooks.install()
    block = Block()
    for _ in range(2):
        block(torch.ones(2))
    hooks.remove()
    block(torch.ones(2))
    assert hooks.modules.paths == ["Block", "Block.layers.0", "Block.layers.1", "Block.Dropout"]
    assert hooks.modules.types == ["Block", "Linear", "ReLU", "Dropout"]
    assert hooks.modules.parents == [None, 1, 1, 1]
    once = [1, 2, 1, 3, 1, 4, 1, 0]
    assert recorder.calls == [*[("module", n) for n in once * 2], ("optimizer", False), ("module", 0)]


def test_a_call_left_by_an_error_is_closed(recorder: FakeRecorder) -> None:
    class Fails(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    hooks = WindowHooks(recorder, modules=True)
    hooks.install()
    with pytest.raises(RuntimeError):
        Fails()(torch.ones(2))
    torch.nn.ReLU()(torch.ones(2))
    hooks.remove()
    assert hooks.modules.paths == ["Fails", "Fails.inner", "ReLU"]
    assert hooks.modules.parents == [None, 1, None]


def test_optimizer_phase(recorder: FakeRecorder) -> None:
    hooks = WindowHooks(recorder, modules=False)
    hooks.install()
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    torch.optim.SGD([parameter], lr=0.1).step()
    hooks.remove()
    assert recorder.calls[:2] == [("optimizer", True), ("optimizer", False)]
    assert hooks.modules.paths == []


def test_steps_are_marked_while_installed(recorder: FakeRecorder) -> None:
    original = torch.profiler.profile.step
    hooks = WindowHooks(recorder, modules=False)
    hooks.install()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        profile.step()
        profile.step()
    hooks.remove()
    assert [call for call in recorder.calls if call[0] == "mark"] == [("mark", 0), ("mark", 1)]
    assert torch.profiler.profile.step is original


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
def test_hooks_leave_no_trace_in_a_compiled_graph(recorder: FakeRecorder) -> None:
    hooks = WindowHooks(recorder, modules=True)
    hooks.install()
    graphs = []

    def backend(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> object:
        graphs.append(graph)
        return graph.forward

    block = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    compiled = torch.compile(block, backend=backend, fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), block(torch.ones(2)))
    hooks.remove()
    assert len(graphs) == 1
    assert hooks.modules.paths == ["Sequential", "Sequential.0", "Sequential.1"]
