"""The device answers like the CPU for the simplest programs."""

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.device


def test_values_come_back_from_the_device() -> None:
    result = torch.ones(3, device="neuron") * 2
    assert result.device == torch.device("neuron", 0)
    assert result.cpu().tolist() == [2.0, 2.0, 2.0]


def test_gradient_equals_cpu() -> None:
    torch.manual_seed(0)
    host = torch.randn(4, 5, requires_grad=True)
    device = host.detach().to("neuron").requires_grad_()
    for leaf in (host, device):
        (leaf.sin() @ leaf.T).sum().backward()
    assert torch.equal(device.grad.cpu(), host.grad)


def test_out_argument_grows_in_place() -> None:
    out = torch.empty(0, device="neuron")
    torch.add(torch.arange(4.0, device="neuron"), 1, out=out)
    assert out.cpu().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_tensors_of_two_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(2, device="neuron") + torch.ones(2)
