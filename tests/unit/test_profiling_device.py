"""Whole profiling sessions on the device: from a script to its capture, its trace and its columns."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")

from torch.autograd import DeviceType  # noqa: E402
from torch.profiler import ProfilerActivity, profile, record_function, schedule  # noqa: E402

from trnscope.profiling import NeuronConfig, NeuronProfiler, ProfileMode  # noqa: E402
from trnscope.store.capture import Capture, find_captures  # noqa: E402

pytestmark = pytest.mark.device

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def rms_norm(x: "torch.Tensor", w: "torch.Tensor") -> "torch.Tensor":
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


@pytest.fixture
def operands() -> "tuple[torch.Tensor, torch.Tensor]":
    x, w = torch.ones(32, 64, device="neuron"), torch.ones(64, device="neuron")
    rms_norm(x, w)
    torch.neuron.synchronize()
    return x, w


def rows(capture: Capture, table: str) -> list[dict[str, object]]:
    return pq.read_table(capture.directory / f"tables/{table}.parquet").to_pylist()


SIX = ["aten::mul.Tensor", "aten::mean.dim", "aten::add.Tensor", "aten::rsqrt", "aten::mul.Tensor", "aten::mul.Tensor"]


def test_capture_of_six_ops(tmp_path: Path, operands: "tuple[torch.Tensor, torch.Tensor]") -> None:
    config = NeuronConfig(profile_output_dir=tmp_path, correlate_device_time=True)
    with profile(
        activities=BOTH, experimental_config=config, on_trace_ready=NeuronProfiler(config).export_trace
    ) as prof:
        with record_function("six"):
            rms_norm(*operands)
        torch.neuron.synchronize()
    (capture,) = find_captures(tmp_path)
    capture.verify_checksums()
    executions = rows(capture, "Execution")
    assert [row["name"] for row in executions] == SIX
    assert not any(row["first_use"] for row in executions)
    assert [row["op"] for row in rows(capture, "OpRecord") if row["exec_id"] is not None] == SIX

    # The runtime's rows of each execution share its flow.
    events = rows(capture, "SystemProfileEvents")
    for execution in executions:
        mine = [row for row in events if row["flow_id"] == [str(execution["flow_id"])]]
        assert [row["name"] for row in mine if row["trace_event_source"] != "framework"] == [
            "nrt_execute", "kbl_exec_pre", "kbl_exec_wait", *["nc_exec_running"] * capture.manifest.lnc,
        ]  # fmt: skip

    # torch's own tables agree with the capture: device columns are sums of its executions.
    total = sum(int(row["device_time_ns"]) for row in executions)
    ops = [r for r in prof.key_averages() if r.key.startswith("aten::") and r.device_type == DeviceType.CPU]
    assert sum(row.self_device_time_total for row in ops) * 1000 == pytest.approx(total)

    # So does the trace, in virtual time.
    trace = json.loads((capture.directory / "trace.json").read_text())
    base = trace["baseTimeNanoseconds"]
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    assert [base + round(e["ts"] * 1000) for e in kernels] == [row["start_ns"] for row in executions]
    launches = [e for e in trace["traceEvents"] if e.get("cat") == "privateuse1_runtime"]
    dispatched = [row["host_start_ns"] for row in rows(capture, "OpRecord") if row["exec_id"] is not None]
    assert [base + round(e["ts"] * 1000) for e in launches] == pytest.approx(dispatched, abs=1)
    (region,) = [e for e in trace["traceEvents"] if e.get("cat") == "user_annotation" and e["name"] == "six"]
    assert region["ts"] <= launches[0]["ts"] <= launches[-1]["ts"] + launches[-1]["dur"] <= region["ts"] + region["dur"]


def test_cpu_columns_are_virtual(tmp_path: Path, operands: "tuple[torch.Tensor, torch.Tensor]") -> None:
    config = NeuronConfig(modes=[ProfileMode.RUNTIME], profile_output_dir=tmp_path)
    x, _ = operands
    large = torch.ones(2048, 2048, device="neuron")
    with profile(activities=BOTH, experimental_config=config) as prof:
        large @ large  # takes the emulating host long
        x * x
    (capture,) = find_captures(tmp_path)
    spent = {row["op"]: row["host_end_ns"] - row["host_start_ns"] for row in rows(capture, "OpRecord")}
    real = {row["op"]: row["dispatch_ns"] for row in rows(capture, "OpRecord")}
    assert spent["aten::mm"] == spent["aten::mul.Tensor"]
    assert real["aten::mm"] > 10 * spent["aten::mm"]
    for row in prof.key_averages():
        if row.key == "neuron_launch":
            assert row.cpu_time_total * 1000 == pytest.approx(2 * spent["aten::mm"], abs=4)
        if row.key == "aten::mm":  # torch's dispatcher around the launch passes in real time
            assert spent["aten::mm"] <= row.cpu_time_total * 1000 < real["aten::mm"]


def test_without_correlation_torch_has_no_device_rows(
    tmp_path: Path, operands: "tuple[torch.Tensor, torch.Tensor]"
) -> None:
    config = NeuronConfig(modes=[ProfileMode.RUNTIME], profile_output_dir=tmp_path)
    with profile(
        activities=BOTH, experimental_config=config, on_trace_ready=NeuronProfiler(config).export_trace
    ) as prof:
        rms_norm(*operands)
    table = prof.key_averages().table()
    assert "Self NEURON" not in table
    names = [event.name for event in prof.events()]  # executions are no host events
    assert (names.count("aten::rsqrt"), names.count("aten::mul"), names.count("aten::mul.Tensor")) == (1, 3, 0)
    (capture,) = find_captures(tmp_path)
    assert len(rows(capture, "Execution")) == 6
    categories = [e.get("cat") for e in json.loads((capture.directory / "trace.json").read_text())["traceEvents"]]
    assert (categories.count("privateuse1_driver"), categories.count("kernel")) == (6, 0)


def test_any_name_that_the_file_system_allows(tmp_path: Path, operands: "tuple[torch.Tensor, torch.Tensor]") -> None:
    directory = tmp_path / 'a"b\n{}:,;='
    config = NeuronConfig(profile_output_dir=directory)
    with profile(activities=BOTH, experimental_config=config, on_trace_ready=NeuronProfiler(config).export_trace):
        rms_norm(*operands)
    (capture,) = find_captures(directory)
    assert json.loads((capture.directory / "trace.json").read_text())["traceEvents"]


def test_schedule_makes_one_directory_per_window(tmp_path: Path, operands: "tuple[torch.Tensor, torch.Tensor]") -> None:
    config = NeuronConfig(modes=[ProfileMode.RUNTIME], profile_output_dir=tmp_path)
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    exporter = NeuronProfiler(config).export_trace
    with profile(activities=BOTH, schedule=plan, experimental_config=config, on_trace_ready=exporter) as prof:
        for _ in range(8):
            rms_norm(*operands)
            prof.step()
    captures = find_captures(tmp_path)
    assert [len(rows(capture, "Execution")) for capture in captures] == [12, 12]
    for capture in captures:
        assert [row["step"] for row in rows(capture, "OpRecord") if row["exec_id"] is not None] == [0] * 6 + [1] * 6
        assert len(rows(capture, "Step")) == 2
        assert (capture.directory / "trace.json").exists()


def test_stacks_and_modules(tmp_path: Path) -> None:
    config = NeuronConfig(modes=[ProfileMode.RUNTIME], profile_output_dir=tmp_path)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).to("neuron")
    x = torch.ones(4, 8, device="neuron")
    model(x).sum().backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profile(activities=BOTH, experimental_config=config, with_stack=True) as prof:
        model(x).sum().backward()
        optimizer.step()
    assert len(prof.events()) > 0
    (capture,) = find_captures(tmp_path)
    modules = {row["module_id"]: row["path"] for row in rows(capture, "Module")}
    assert list(modules.values()) == ["Sequential", "Sequential.0", "Sequential.1"]
    records = [row for row in rows(capture, "OpRecord") if row["exec_id"] is not None]
    by_phase: dict[str, set[str | None]] = {}
    for row in records:
        by_phase.setdefault(str(row["phase"]), set()).add(modules.get(row["module_id"]))
    assert {"Sequential.0", "Sequential.1"} <= by_phase["forward"]
    assert {"Sequential.0", "Sequential.1"} <= by_phase["backward"]
    assert by_phase["optimizer"] == {None}
    stacks = {row["stack_id"]: row for row in rows(capture, "Stack")}
    forward = next(row for row in records if modules.get(row["module_id"]) == "Sequential.1")
    assert any(Path(file).name == Path(__file__).name for file in stacks[forward["stack_id"]]["files"])


def test_context_manager_profiles_by_itself(tmp_path: Path, operands: "tuple[torch.Tensor, torch.Tensor]") -> None:
    profiler = NeuronProfiler(NeuronConfig(modes=[ProfileMode.RUNTIME], profile_output_dir=tmp_path))
    with profiler:
        assert profiler.is_active()
        with pytest.raises(RuntimeError, match="Profiler is already active"):
            profiler.start()
        rms_norm(*operands)
    with pytest.raises(RuntimeError, match="Profiler is not active"):
        profiler.stop()
    (capture,) = find_captures(tmp_path)
    assert profiler.session_dir == capture.directory
    assert (capture.directory / "trace.json").exists()


def test_profiles_of_torch_alone_are_untouched() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        torch.ones(3) + 1
    assert [event.name for event in prof.events() if event.name == "aten::add"] == ["aten::add"]
