"""What scripts do with a device: training, saving, function transforms, threads, several devices."""

import copy
import io
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.device


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 3))


def train(device: str, make_optimizer: Callable[..., torch.optim.Optimizer]) -> list[float]:
    model = make_model().to(device)
    optimizer = make_optimizer(model.parameters())
    torch.manual_seed(1)
    x, y = torch.randn(10, 6).to(device), torch.randint(0, 3, (10,)).to(device)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "make_optimizer",
    [
        pytest.param(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), id="sgd"),
        pytest.param(lambda p: torch.optim.AdamW(p, 0.01, foreach=False), id="adamw-loop"),
        pytest.param(lambda p: torch.optim.AdamW(p, 0.01, foreach=True), id="adamw-foreach"),
        pytest.param(lambda p: torch.optim.AdamW(p, 0.01, fused=True), id="adamw-fused"),
    ],
)
def test_training_equals_the_cpu(make_optimizer: Callable[..., torch.optim.Optimizer]) -> None:
    assert train("neuron", make_optimizer) == pytest.approx(train("cpu", make_optimizer), rel=1e-6)


def test_save_and_load_with_map_location(tmp_path: Path) -> None:
    x = torch.arange(6.0, device="neuron:1").view(2, 3)
    torch.save({"x": x}, tmp_path / "x.pt")
    same = torch.load(tmp_path / "x.pt")["x"]
    assert same.device == torch.device("neuron:1")
    for where in ("cpu", "neuron:0", torch.device("neuron", 2)):
        moved = torch.load(tmp_path / "x.pt", map_location=where)["x"]
        assert moved.device == torch.device(where)
        assert torch.equal(moved.cpu(), x.cpu())


def test_pickles_and_old_checkpoints() -> None:
    x = torch.arange(6.0, device="neuron:1").view(2, 3)[:, 1:]
    old = io.BytesIO()
    torch.save(x, old, _use_new_zipfile_serialization=False)
    old.seek(0)
    for again in (pickle.loads(pickle.dumps(x)), torch.load(old)):
        assert again.device == torch.device("neuron:1")
        assert torch.equal(again.cpu(), x.cpu())


def test_pinned_memory_serves_loaders() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    batches = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
    assert [batch.to("neuron", non_blocking=True).tolist() for (batch,) in batches] == [[0.0, 1.0], [2.0, 3.0]]


def test_load_checkpoint_of_the_cpu_onto_the_device() -> None:
    buffer = io.BytesIO()
    torch.save(torch.arange(4), buffer)
    buffer.seek(0)
    assert torch.load(buffer, map_location="neuron").device == torch.device("neuron:0")


def test_deepcopy_shares_nothing_and_keeps_views_together() -> None:
    base = torch.zeros(4, device="neuron")
    copied = copy.deepcopy([base, base[1:3]])
    copied[0].fill_(1)
    assert base.cpu().tolist() == [0.0] * 4
    assert copied[1].cpu().tolist() == [1.0, 1.0]
    assert copied[0].device == base.device


def test_views_share_memory_and_know_their_base() -> None:
    x = torch.zeros(2, 3, device="neuron")
    view = x.t()[1:]
    view.add_(1)
    assert view._base is x
    assert x.cpu().tolist() == [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    assert x.untyped_storage().data_ptr() == view.untyped_storage().data_ptr()


def test_functional_transforms() -> None:
    x = torch.randn(5, 3)
    function = torch.func.vmap(torch.func.grad(lambda row: (row.sin() * row).sum()))
    torch.testing.assert_close(function(x.to("neuron")).cpu(), function(x))
    jacobian = torch.func.jacrev(torch.cos)
    torch.testing.assert_close(jacobian(x[0].to("neuron")).cpu(), jacobian(x[0]))


def test_threads_share_parameters() -> None:
    weight = torch.randn(16, 16, device="neuron")
    expected = (weight.cpu() @ weight.cpu()).sum().item()
    results: list[float] = []

    def work() -> None:
        results.extend((weight @ weight).sum().item() for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [pytest.approx(expected, rel=1e-4)] * 200


def test_inference_mode_and_default_device() -> None:
    with torch.inference_mode():
        assert torch.ones(2, device="neuron").mul(2).is_inference()
    with torch.device("neuron:2"):
        x = torch.zeros(2)
    assert x.device == torch.device("neuron:2")


def test_current_device_is_per_thread_and_restored() -> None:
    assert torch.neuron.current_device() == 0
    with torch.neuron.device(3):
        assert torch.empty(1, device="neuron").device == torch.device("neuron:3")
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(torch.neuron.current_device()))
        thread.start()
        thread.join()
        assert seen == [0]
    assert torch.neuron.current_device() == 0


def test_copies_between_devices() -> None:
    x = torch.arange(3.0, device="neuron:0")
    y = x.to("neuron:1")
    assert y.device == torch.device("neuron:1")
    assert y.cpu().tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="neuron:0 and neuron:1"):
        x + y


def test_autocast_and_gradient_scaling() -> None:
    x, w = torch.randn(4, 4, device="neuron"), torch.randn(4, 4, device="neuron", requires_grad=True)
    with torch.autocast("neuron", dtype=torch.bfloat16):
        product = x @ w
        assert product.dtype == torch.bfloat16
        assert product.softmax(-1).dtype == torch.float32
    scaler = torch.amp.GradScaler("neuron")
    optimizer = torch.optim.SGD([w], 0.1)
    before = w.detach().clone()
    scaler.scale(product.float().sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(before, w)


@pytest.mark.parametrize(
    ("make", "layout"),
    [
        (lambda: torch.eye(3).to_sparse().to("neuron"), "sparse"),
        (lambda: torch.eye(3, device="neuron").to_sparse(), "sparse"),
        (lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device="neuron"), "sparse"),
        (lambda: torch.eye(3).to_sparse_csr().to("neuron").sum(), "sparse compressed"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)], device="neuron") + 1, "nested"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8).to("neuron"), "quantized"),
    ],
)
def test_other_layouts_are_refused_by_name(make: Callable[[], object], layout: str) -> None:
    with pytest.raises(NotImplementedError, match=f"neuron device has no {layout} tensors"):
        make()


def test_tensor_methods_and_module_methods() -> None:
    assert torch.ones(2).neuron().is_neuron
    assert next(torch.nn.Linear(2, 2).neuron().parameters()).device.type == "neuron"


def test_no_memory_is_lost_over_many_steps() -> None:
    model = make_model().to("neuron")
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(4, 6, device="neuron")
    used = []
    for _ in range(30):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        used.append(torch.neuron.memory_allocated())
    assert used[2] == used[-1]
