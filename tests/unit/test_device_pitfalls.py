"""Places where a device of this kind crashes or silently differs unless it is written with care."""

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.device


def test_lazy_conjugate_and_negative_copy_to_the_host() -> None:
    values = torch.tensor([1 + 2j, 3 - 4j])
    on_device = values.to("neuron")
    assert torch.equal(on_device.conj().cpu(), values.conj().resolve_conj())
    assert torch.equal(on_device.conj().imag.cpu(), values.conj().imag.resolve_neg())
    assert torch.equal(values.conj().to("neuron").cpu(), values.conj().resolve_conj())


def test_efficient_zeros_have_memory() -> None:
    x = torch.tensor([-1.0, 2.0], device="neuron", requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.sgn(x).sum(), x)
    assert gradient.cpu().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("elementwise", [True, False])
def test_rms_norm_backward_without_a_cpu_kernel(elementwise: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 5, 8, requires_grad=True)
    weight = torch.randn(8, requires_grad=True) if elementwise else None
    reference = [x] if weight is None else [x, weight]
    leaves = [leaf.detach().to("neuron").requires_grad_() for leaf in reference]
    grad = torch.randn(3, 5, 8)
    F.rms_norm(x, (8,), weight).backward(grad)
    F.rms_norm(leaves[0], (8,), leaves[1] if elementwise else None).backward(grad.to("neuron"))
    for leaf, expected in zip(leaves, reference, strict=True):
        torch.testing.assert_close(leaf.grad.cpu(), expected.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cell", [torch.nn.LSTM, torch.nn.GRU])
def test_fused_recurrent_cells_without_a_cpu_kernel(cell: type[torch.nn.RNNBase]) -> None:
    torch.manual_seed(0)
    host = cell(4, 6, num_layers=2, batch_first=True)
    device = cell(4, 6, num_layers=2, batch_first=True)
    device.load_state_dict(host.state_dict())
    device.to("neuron")
    x = torch.randn(3, 5, 4)
    expected, actual = host(x)[0], device(x.to("neuron"))[0]
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-6)
    expected.sum().backward()
    actual.sum().backward()
    for got, wanted in zip(device.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(got.grad.cpu(), wanted.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
def test_convolution_and_its_gradients(transposed: bool) -> None:
    torch.manual_seed(0)
    function = F.conv_transpose2d if transposed else F.conv2d
    reference = [torch.randn(2, 4, 9, 9), torch.randn(4, 4, 3, 3), torch.randn(4)]
    reference = [leaf.requires_grad_() for leaf in reference]
    leaves = [leaf.detach().to("neuron").requires_grad_() for leaf in reference]
    expected, actual = function(*reference, stride=2), function(*leaves, stride=2)
    torch.testing.assert_close(actual.cpu(), expected)
    expected.sum().backward()
    actual.sum().backward()
    for got, wanted in zip(leaves, reference, strict=True):
        torch.testing.assert_close(got.grad.cpu(), wanted.grad)


@pytest.mark.parametrize(
    ("heads", "causal", "masked"), [(4, False, False), (4, True, False), (4, False, True), (2, True, False)]
)
def test_attention_with_grouped_heads_masks_and_gradients(heads: int, causal: bool, masked: bool) -> None:
    torch.manual_seed(0)
    reference = [torch.randn(2, h, 6, 8, requires_grad=True) for h in (4, heads, heads)]
    leaves = [leaf.detach().to("neuron").requires_grad_() for leaf in reference]
    mask = torch.rand(6, 6) > 0.3 if masked else None
    if mask is not None:
        mask[:, 0] = True
    options = {"is_causal": causal, "enable_gqa": heads != 4}
    expected = F.scaled_dot_product_attention(*reference, attn_mask=mask, **options)
    moved = None if mask is None else mask.to("neuron")
    actual = F.scaled_dot_product_attention(*leaves, attn_mask=moved, **options)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)
    grad = torch.randn_like(expected)
    expected.backward(grad)
    actual.backward(grad.to("neuron"))
    for got, wanted in zip(leaves, reference, strict=True):
        torch.testing.assert_close(got.grad.cpu(), wanted.grad, rtol=1e-4, atol=1e-5)


def test_gradient_of_an_attention_bias() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 5, 4, dtype=torch.float64) for _ in range(3))
    host = torch.randn(1, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    device = host.detach().to("neuron").requires_grad_()
    F.scaled_dot_product_attention(q, k, v, attn_mask=host).sum().backward()
    F.scaled_dot_product_attention(q.to("neuron"), k.to("neuron"), v.to("neuron"), attn_mask=device).sum().backward()
    torch.testing.assert_close(device.grad.cpu(), host.grad)


def test_attention_dropout_keeps_its_mask_for_the_backward_pass() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 64, 4, device="neuron", requires_grad=True) for _ in range(3))
    identity = torch.eye(64, device="neuron").view(1, 1, 64, 64)  # the result is the attention weights
    out = F.scaled_dot_product_attention(q, k, identity, dropout_p=0.5)
    kept = (out > 0).float().mean().item()
    assert 0.4 < kept < 0.6
    F.scaled_dot_product_attention(q, k, v, dropout_p=0.5).sum().backward()
    assert torch.isfinite(v.grad).all().item()


def test_layouts_are_what_the_shape_functions_promise() -> None:
    query = torch.randn(2, 6, 4, 8, device="neuron").transpose(1, 2).requires_grad_()
    key, value = (torch.randn(2, 4, 6, 8, device="neuron", requires_grad=True) for _ in range(2))
    result = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(query, key, value)
    assert result[0].stride() == query.stride()
    assert result[6].shape == result[7].shape == ()
    assert result[6].dtype == result[7].dtype == torch.int64
    result[0].sum().backward()
    assert query.grad.stride() == query.stride()


def test_out_argument_and_result_are_the_same_object() -> None:
    out = torch.empty(3, device="neuron")
    assert torch.add(torch.ones(3, device="neuron"), 1, out=out) is out
    x = torch.ones(3, device="neuron")
    assert x.add_(1) is x
    assert x.cpu().tolist() == [2.0, 2.0, 2.0]


def test_overlapping_memory_is_seen() -> None:
    x = torch.zeros(1, device="neuron").expand(4)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.add_(1)
