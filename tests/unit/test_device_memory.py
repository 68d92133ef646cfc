"""The modelled HBM: classes, segments, statistics, limits."""

import pytest

from trnscope.schema import MEMORY_EVENT_DTYPE

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.device

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
DEVICE = 3  # nothing else allocates here


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.neuron.empty_cache()
    torch.neuron.reset_peak_memory_stats(DEVICE)
    torch.neuron.reset_accumulated_memory_stats(DEVICE)
    assert torch.neuron.memory_reserved(DEVICE) == 0


def block(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=f"neuron:{DEVICE}")


@pytest.mark.parametrize(
    ("requested", "allocated", "reserved"),
    [
        (1, 256, 2 * MIB),
        (256, 256, 2 * MIB),
        (257, 512, 2 * MIB),
        (5000, 5120, 2 * MIB),  # 4096 in steps of 512
        (MIB - 1, MIB, 32 * MIB),  # rounds up into the large pool
        (MIB, MIB, 32 * MIB),
        (9 * MIB + 1, 10 * MIB, 32 * MIB),
        (16 * MIB, 16 * MIB, 16 * MIB),
        (16 * MIB + 1, 16 * MIB + 256, 16 * MIB + 256),  # aligned only
    ],
)
def test_size_classes_and_segments(requested: int, allocated: int, reserved: int) -> None:
    x = block(requested)
    assert torch.neuron.memory_allocated(DEVICE) == allocated
    assert torch.neuron.memory_reserved(DEVICE) == reserved
    del x
    assert torch.neuron.memory_allocated(DEVICE) == 0
    assert torch.neuron.memory_reserved(DEVICE) == reserved
    torch.neuron.empty_cache()
    assert torch.neuron.memory_reserved(DEVICE) == 0


def test_statistics_have_both_spellings() -> None:
    x, y = block(100), block(2 * MIB)
    del x
    stats = torch.neuron.memory_stats(f"neuron:{DEVICE}")
    assert stats["allocated_bytes"] == {
        "current": 2 * MIB,
        "peak": 2 * MIB + 256,
        "allocated": 2 * MIB + 256,
        "freed": 256,
    }
    assert stats["allocated_bytes.large_pool.current"] == 2 * MIB
    assert stats["allocated_bytes.small_pool.freed"] == 256
    assert stats["reserved_bytes.all.current"] == stats["reserved_bytes"]["current"] == 34 * MIB
    assert stats["active_bytes"] == stats["allocated_bytes"]
    assert stats["segment.all.current"] == 2
    assert stats["requested_bytes.all.peak"] == 2 * MIB + 100
    assert (stats["allocation_requests"], stats["num_tensor_frees"]) == (2, 1)
    assert (stats["num_alloc_retries"], stats["num_ooms"]) == (0, 0)
    torch.neuron.reset_peak_memory_stats(DEVICE)
    assert torch.neuron.max_memory_allocated(DEVICE) == 2 * MIB
    assert torch.accelerator.memory_allocated(DEVICE) == 2 * MIB
    assert f"Neuron Memory Summary, Device {DEVICE}" in torch.neuron.memory_summary(DEVICE)
    del y


def test_memory_events_have_the_layout_of_the_schema() -> None:
    assert torch.neuron.memory._C.drain_memory_events().dtype == MEMORY_EVENT_DTYPE


def test_freed_blocks_are_used_again_last_first() -> None:
    torch.neuron.memory._C.log_memory_events(on=True)
    try:
        x, y = block(1000), block(1000)
        del x, y
        z = block(1000)
        events = torch.neuron.memory._C.drain_memory_events()
    finally:
        torch.neuron.memory._C.log_memory_events(on=False)
    events = events[events["device"] == DEVICE]
    assert events["is_free"].tolist() == [0, 0, 1, 1, 0]
    assert events["bytes"].tolist() == [1000] * 5
    assert events["block_bytes"].tolist() == [1024] * 5
    assert events["allocated_bytes"].tolist() == [1024, 2048, 1024, 0, 1024]
    assert events["reserved_bytes"].tolist() == [2 * MIB] * 5
    first, second = events["address"][:2]
    assert second == first + 1024
    assert events["address"][4] == second
    assert len(set(events["storage"].tolist())) == 3
    assert (events["time_ns"][1:] >= events["time_ns"][:-1]).all()
    assert torch.neuron.memory._C.live_storages()["storage"].tolist().count(events["storage"][4]) == 1
    del z


def test_out_of_memory_names_the_size_and_counts() -> None:
    total = torch.neuron.mem_get_info(DEVICE)[1]
    assert total == 24 * GIB
    with pytest.raises(
        RuntimeError, match=r"NRT allocation failed for size 26843545600 \(OOM\): neuron:3 models 24576 MiB"
    ):
        block(25 * GIB)
    stats = torch.neuron.memory_stats(DEVICE)
    assert (stats["num_ooms"], stats["num_alloc_retries"]) == (1, 1)
    assert torch.neuron.memory_allocated(DEVICE) == 0


def test_a_full_cache_is_given_back_before_giving_up() -> None:
    x = block(16 * GIB)
    del x
    y = block(20 * GIB)
    assert torch.neuron.memory_stats(DEVICE)["num_alloc_retries"] == 1
    assert torch.neuron.memory_reserved(DEVICE) == 20 * GIB
    del y
    torch.neuron.empty_cache()


def test_storage_grows_on_its_own_device() -> None:
    x = block(10)
    x.untyped_storage().resize_(3000)
    assert torch.neuron.memory_allocated(DEVICE) == 3072
