"""torch.profiler on the device: rows, links, arrows, windows, several devices and threads."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.device
torch = pytest.importorskip("torch")

from torch._C._profiler import _ExperimentalConfig  # noqa: E402
from torch.profiler import ProfilerActivity, profile, record_function, schedule  # noqa: E402

from trnscope.runtime import windows as windows_module  # noqa: E402
from trnscope.schema.records import Kind, Phase  # noqa: E402


@pytest.fixture
def finished() -> Iterator[list[Any]]:
    """(window, placed) of each window that ends in the test."""
    before = list(windows_module._observers)
    seen: list[Any] = []
    windows_module.add_observer(finish=lambda window, placed: seen.append((window, placed)))
    yield seen
    windows_module._observers[:] = before


def rms_norm(x: Any, w: Any) -> Any:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w


def arguments() -> tuple[Any, Any]:
    return torch.randn(16, 32, device="neuron"), torch.ones(32, device="neuron")


def trace_of(prof: Any, path: Path) -> list[dict[str, Any]]:
    prof.export_chrome_trace(str(path))
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def configured(text: str) -> Any:
    return _ExperimentalConfig(custom_profiler_config=text)


def device_rows(prof: Any) -> list[Any]:
    device = torch.autograd.DeviceType.PrivateUse1
    rows = [e for e in prof.events() if e.device_type == device and not e.is_user_annotation]
    return sorted(rows, key=lambda e: e.time_range.start)


def test_rms_norm_is_six_executions_that_add_up(finished: list[Any], tmp_path: Path) -> None:
    x, w = arguments()
    with profile() as prof:
        rms_norm(x, w)
    rows = device_rows(prof)
    names = ["mul.Tensor", "mean.dim", "add.Tensor", "rsqrt", "mul.Tensor", "mul.Tensor"]
    assert [e.name for e in rows] == [f"aten::{name}" for name in names]
    _window, placed = finished[0]
    executions = placed.exec_id >= 0
    expected_ns = (placed.device_end_ns - placed.device_start_ns)[executions]
    assert len(expected_ns) == 6
    assert sum(e.device_time_total for e in rows) * 1000 == pytest.approx(int(expected_ns.sum()), abs=6)
    table = prof.key_averages()
    on_ops = {e.key: e.self_device_time_total for e in table if e.key.startswith("aten::") and e.cpu_time_total}
    assert on_ops["aten::mul"] * 1000 == pytest.approx(int(expected_ns[[0, 4, 5]].sum()), abs=6)
    assert sum(on_ops.values()) * 1000 == pytest.approx(int(expected_ns.sum()), abs=6)
    footer = table.table().split("Self NEURON time total: ")[1].split("us")[0]
    assert float(footer) * 1000 == pytest.approx(int(expected_ns.sum()), abs=6)
    events = trace_of(prof, tmp_path / "trace.json")
    by_cat = Counter(e.get("cat") for e in events if e.get("ph") == "X")
    assert (by_cat["kernel"], by_cat["privateuse1_runtime"], by_cat["privateuse1_driver"]) == (6, 6, 0)


def test_every_execution_links_to_its_op_by_one_arrow(tmp_path: Path) -> None:
    x, w = arguments()
    with profile() as prof:
        rms_norm(x, w).cpu()
    events = trace_of(prof, tmp_path / "trace.json")
    ops = {e["args"]["External id"]: e for e in events if e.get("cat") == "cpu_op"}
    launches = {e["args"]["correlation"]: e for e in events if e.get("cat") == "privateuse1_runtime"}
    executions = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy")]
    assert len(launches) == len(executions) == 7
    starts = Counter(e["id"] for e in events if e.get("cat") == "ac2g" and e["ph"] == "s")
    ends = Counter(e["id"] for e in events if e.get("cat") == "ac2g" and e["ph"] == "f")
    assert starts == ends == Counter(dict.fromkeys(launches, 1))
    for execution in executions:
        launch = launches[execution["args"]["correlation"]]
        op = ops[execution["args"]["External id"]]
        assert launch["args"]["External id"] == execution["args"]["External id"]
        assert op["ts"] <= launch["ts"]
        assert launch["ts"] + launch["dur"] <= op["ts"] + op["dur"]
        assert execution["ts"] >= launch["ts"]
        assert execution["args"]["modelled"] is True
    expected = ["aten::mul", "aten::mean", "aten::add", "aten::rsqrt", "aten::mul", "aten::mul", "aten::copy_"]
    assert [ops[e["args"]["External id"]]["name"] for e in executions] == expected


def test_kernel_arguments(finished: list[Any], tmp_path: Path) -> None:
    x = torch.ones(64, 64, device="neuron")
    with profile() as prof:
        x @ x
    (kernel,) = [e for e in trace_of(prof, tmp_path / "trace.json") if e.get("cat") == "kernel"]
    arguments = kernel["args"]
    assert arguments["flops"] == 2 * 64**3
    (program,) = finished[0][1].programs
    assert arguments["bytes"] == program.hbm_read_bytes + program.hbm_write_bytes >= 3 * 64 * 64 * 4
    assert arguments["program"] == program.key
    assert arguments["engine"] == "tensor"
    assert arguments["bound"] in ("compute", "memory", "overhead", "latency")


def test_cpu_only_profile_has_no_trace_of_the_device(finished: list[Any], tmp_path: Path) -> None:
    x, w = arguments()
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        rms_norm(x, w)
    cats = {e.get("cat") for e in trace_of(prof, tmp_path / "trace.json")}
    assert cats.isdisjoint({"kernel", "privateuse1_runtime", "privateuse1_driver", "ac2g"})
    assert "neuron_launch" not in {e.key for e in prof.key_averages()}
    assert finished == []


def test_device_only_profile(finished: list[Any]) -> None:
    x, w = arguments()
    with profile(activities=[ProfilerActivity.PrivateUse1]) as prof:
        rms_norm(x, w)
    assert len(device_rows(prof)) == 6
    assert set(finished[0][0].log["correlation"].tolist()) == {0}


@pytest.mark.parametrize(("correlate", "kernels"), [("true", 6), ("false", 0)])
def test_configured_profile(correlate: str, kernels: int, tmp_path: Path) -> None:
    x, w = arguments()
    config = configured(f"correlate_device_time:{correlate}")
    with profile(experimental_config=config) as prof:
        rms_norm(x, w)
    events = trace_of(prof, tmp_path / "trace.json")
    by_cat = Counter(e.get("cat") for e in events if e.get("ph") == "X")
    assert by_cat["privateuse1_driver"] == 6
    assert by_cat["kernel"] == kernels
    assert len(device_rows(prof)) == kernels


@pytest.mark.parametrize("activities", [[ProfilerActivity.CPU], None])
def test_host_kernels_leave_no_rows(activities: Any) -> None:
    x = torch.ones(64, 64, device="neuron")
    with profile(activities=activities, profile_memory=True) as prof:
        x.mean()
        torch.zeros(256, device="neuron")
    cpu_ops = Counter(e.name for e in prof.events() if e.device_type == torch.autograd.DeviceType.CPU)
    assert cpu_ops["aten::mean"] == 1
    assert {"aten::sum", "aten::fill_", "aten::div_"}.isdisjoint(cpu_ops)
    mean = next(e for e in prof.key_averages() if e.key == "aten::mean")
    assert mean.device_memory_usage > 0


def test_driver_rows_add_no_time_to_torchs_tables() -> None:
    x, w = arguments()
    with profile(experimental_config=configured("correlate_device_time:false")) as prof:
        rms_norm(x, w)
    averages = prof.key_averages()
    assert "Self NEURON" not in averages.table()
    assert sum(e.self_device_time_total for e in averages) == 0
    # Every row is an op, or the launch inside of one: all self times are the time of the outermost ops.
    events = prof.events()
    launches = [e for e in events if e.name == "neuron_launch"]
    assert len(launches) == 6
    assert all(launch.cpu_parent is not None for launch in launches)
    outermost = sum(e.cpu_time_total for e in events if e.cpu_parent is None)
    assert averages.self_cpu_time_total == pytest.approx(outermost)
    assert sum(e.count for e in averages) == len(events) == sum(e.name.startswith("aten::") for e in events) + 6


def test_schedule_gives_one_window_per_cycle(finished: list[Any]) -> None:
    x, w = arguments()
    counts: list[int] = []
    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda prof: counts.append(len(device_rows(prof))),
    ) as prof:
        for _ in range(8):
            rms_norm(x, w)
            prof.step()
    assert counts == [12, 12]
    assert [window.number for window, _ in finished] == [finished[0][0].number, finished[0][0].number + 1]
    assert [int((placed.exec_id >= 0).sum()) for _, placed in finished] == [12, 12]
    # The executions of the steps in between happened, outside of the windows.
    first, second = (placed.exec_id[placed.exec_id >= 0] for _, placed in finished)
    assert second[0] - first[-1] == 1 + 12


def test_several_devices_in_one_trace(tmp_path: Path) -> None:
    x, _w = arguments()
    y = torch.ones(8, device="neuron:1")
    with profile() as prof:
        x * x
        y * y
        x.to("neuron:1")
    events = trace_of(prof, tmp_path / "trace.json")
    placed = [(e["cat"], e["pid"], e["args"]["device"]) for e in events if e.get("cat") in ("kernel", "gpu_memcpy")]
    assert placed == [("kernel", 0, 0), ("kernel", 1, 1), ("gpu_memcpy", 1, 1)]
    named = {(e["pid"], e["args"]["name"]) for e in events if e.get("name") == "process_name"}
    assert {(0, "logical NeuronCore 0 (modelled)"), (1, "logical NeuronCore 1 (modelled)")} <= named


def test_annotations_of_all_levels_reach_the_device(tmp_path: Path) -> None:
    x, w = arguments()
    with profile() as prof:
        with record_function("outer"):
            x * x
            with record_function("inner"):
                rms_norm(x, w)
        with record_function("empty"):
            pass
    events = trace_of(prof, tmp_path / "trace.json")
    regions = {e["name"]: e for e in events if e.get("cat") == "gpu_user_annotation"}
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert set(regions) == {"outer", "inner"}
    slack_us = 0.002  # the trace rounds
    for name, inside in (("outer", kernels), ("inner", kernels[1:])):
        region = regions[name]
        assert region["ts"] == pytest.approx(inside[0]["ts"], abs=slack_us)
        assert region["ts"] + region["dur"] == pytest.approx(inside[-1]["ts"] + inside[-1]["dur"], abs=slack_us)


def test_backward_ops_link_and_inherit_the_forward_stack(finished: list[Any]) -> None:
    x = torch.ones(8, device="neuron", requires_grad=True)
    with profile(with_stack=True) as prof:
        (x.exp() * x).sum().backward()
    window, placed = finished[0]
    log = window.log
    backward = log["phase"] == Phase.BACKWARD
    assert backward.any()
    assert np.all(log["correlation"][placed.exec_id >= 0] != 0)
    stacks = window.stacks
    for stack in log["stack"][~backward & (placed.exec_id >= 0)]:
        functions = [frame[2] for frame in stacks[int(stack)]]
        assert "test_backward_ops_link_and_inherit_the_forward_stack" in functions
    has_forward = backward & np.isin(log["seq_nr"], log["seq_nr"][~backward & (log["seq_nr"] >= 0)])
    assert has_forward.sum() >= 3
    assert np.all(log["stack"][has_forward] != 0)
    assert len(device_rows(prof)) == int((placed.exec_id >= 0).sum())


def test_stack_lines(finished: list[Any]) -> None:
    x = torch.ones(8, device="neuron")
    with profile(with_stack=True):
        x.exp()
        x.exp()
    window, _ = finished[0]
    first, second = (window.stacks[int(s)][0] for s in window.log["stack"][:2])
    assert first[0] == __file__
    assert second[1] == first[1] + 1


def test_without_stacks_none_are_taken(finished: list[Any]) -> None:
    x = torch.ones(8, device="neuron")
    with profile():
        x.exp()
    window, _ = finished[0]
    assert window.stacks == {}
    assert set(window.log["stack"].tolist()) == {0}
    assert window.torch_flags["with_stack"] is False


def test_placement_is_not_clipped_by_the_window(finished: list[Any]) -> None:
    x = torch.ones(2048, 2048, device="neuron", dtype=torch.bfloat16)
    with profile() as prof:
        for _ in range(3):
            x.relu()
    _window, placed = finished[0]
    durations = (placed.device_end_ns - placed.device_start_ns)[placed.exec_id >= 0]
    assert len(set(durations.tolist())) == 1
    rows = device_rows(prof)
    assert [e.device_time_total for e in rows] == pytest.approx([durations[0] / 1000] * 3, abs=0.002)
    for before, after in itertools.pairwise(rows):
        assert after.time_range.start >= before.time_range.end - 0.002


def test_device_sync_and_copies_in_the_log(finished: list[Any]) -> None:
    with profile():
        x = torch.ones(4).to("neuron")
        float(x[0])
        torch.neuron.synchronize()
    kinds = finished[0][0].log["kind"].tolist()
    # torch's profiler synchronises once more when it stops
    assert kinds == [Kind.COPY_H2D, Kind.COPY_D2H, Kind.DEVICE_SYNC, Kind.DEVICE_SYNC]


def test_elapsed_time_inside_and_outside_of_a_window() -> None:
    x = torch.ones(512, 512, device="neuron")

    def elapsed_ms() -> float:
        start, end = (torch.Event(device="neuron", enable_timing=True) for _ in range(2))
        torch.neuron.synchronize()
        start.record()
        x @ x
        end.record()
        return float(start.elapsed_time(end))

    outside = elapsed_ms()
    with profile() as prof:
        inside = elapsed_ms()
    assert outside > 0
    assert inside > 0
    (row,) = device_rows(prof)
    assert inside * 1000 >= row.device_time_total
