"""Events and random numbers."""

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.device


def test_errors_of_events_are_the_documented_ones() -> None:
    timed, plain = torch.neuron.Event(enable_timing=True), torch.neuron.Event()
    assert timed.query()
    assert timed.device is None
    with pytest.raises(RuntimeError, match="^Event was not created with timing enabled$"):
        plain.elapsed_time(timed)
    with pytest.raises(RuntimeError, match="^Event has not been recorded$"):
        timed.elapsed_time(torch.neuron.Event(enable_timing=True))
    timed.record()
    assert timed.device == torch.device("neuron:0")
    with pytest.raises(RuntimeError, match="^End event was not created with timing enabled$"):
        timed.elapsed_time(plain)
    other = torch.neuron.Event(enable_timing=True)
    with torch.neuron.device(1):
        other.record()
    with pytest.raises(RuntimeError, match="^Events must be on the same device$"):
        timed.elapsed_time(other)


def test_elapsed_time_is_modelled_device_time() -> None:
    x = torch.ones(512, 512, device="neuron")
    events = [torch.neuron.Event(enable_timing=True) for _ in range(3)]
    events[0].record()
    x @ x
    events[1].record()
    for _ in range(10):
        x @ x
    events[2].record()
    torch.neuron.synchronize()
    one, ten = events[0].elapsed_time(events[1]), events[1].elapsed_time(events[2])
    assert 0 < one < ten


def test_streams_of_another_device_are_refused() -> None:
    with pytest.raises(RuntimeError, match="^Expected Neuron device, got: cpu$"):
        torch.neuron.Stream(device="cpu")
    with pytest.raises(RuntimeError, match="^Cross-device stream synchronization not supported$"):
        torch.neuron.Stream(device=0).wait_stream(torch.neuron.Stream(device=1))


def test_same_seed_gives_the_numbers_of_the_cpu() -> None:
    torch.manual_seed(7)
    host = torch.randn(5)
    torch.manual_seed(7)
    assert torch.equal(torch.randn(5, device="neuron").cpu(), host)


def test_generators_are_independent() -> None:
    torch.manual_seed(7)
    expected = torch.randn(3)
    torch.manual_seed(7)
    torch.randn(100, device="neuron")
    assert torch.equal(torch.randn(3), expected)
    own = torch.Generator("neuron").manual_seed(3)
    first = torch.rand(2, device="neuron", generator=own)
    assert torch.equal(torch.rand(2, generator=torch.Generator().manual_seed(3)), first.cpu())


def test_state_can_be_kept_and_restored() -> None:
    state = torch.neuron.get_rng_state(1)
    first = torch.rand(3, device="neuron:1")
    torch.neuron.set_rng_state(state, "neuron:1")
    assert torch.equal(torch.rand(3, device="neuron:1"), first)
    with torch.random.fork_rng(devices=[0], device_type="neuron"):
        inside = torch.rand(2, device="neuron")
    assert torch.equal(torch.rand(2, device="neuron"), inside)
    assert torch.neuron.initial_seed() == torch.neuron.default_generators[0].initial_seed()


@pytest.mark.parametrize(
    ("argument", "error", "text"),
    [
        (4, ValueError, "Invalid device id: 4. Valid range is 0 to 3"),
        ("cpu", ValueError, "Expected neuron device, got cpu"),
        (1.5, TypeError, "Expected an int, a str or a torch.device, got 1.5"),
    ],
)
def test_wrong_devices_are_named(argument: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        torch.neuron.set_device(argument)


def test_properties() -> None:
    properties = torch.neuron.get_device_properties("neuron:2")
    assert (properties.name, properties.total_memory, properties.is_simulation) == ("trn2", 24 << 30, True)
    assert torch.neuron.get_device_name(1) == "neuron:1"
    assert torch.neuron.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    assert torch.neuron.get_amp_supported_dtype() == [torch.float32, torch.float16, torch.bfloat16]
