"""The record log of the extension: layout, exact sequences for given scripts, threads, folding."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from trnscope.schema.records import LOG_DTYPE, Flag, Kind, Origin, Phase

pytestmark = pytest.mark.device
torch = pytest.importorskip("torch")


class Log:
    """Takes the place of the runtime, so that records stay until they are asked for."""

    def __init__(self, extension: Any) -> None:
        self.extension = extension
        self.refs = np.empty(0, np.uint64)

    def take(self) -> np.ndarray:
        log, refs = self.extension.drain_log()
        self.refs = refs.view(np.uint64)
        records: np.ndarray = log.view(LOG_DTYPE)
        return records

    def storages(self, record: np.void) -> list[int]:
        first = int(record["tensors"])
        count = int(record["n_inputs"]) + int(record["n_outputs"])
        return [int(storage) for storage in self.refs[first : first + count]]

    def names(self, log: np.ndarray) -> list[str]:
        return [(self.extension.describe_signature(int(s)) or ("",))[0] for s in log["signature"]]


@pytest.fixture
def extension() -> Any:
    torch.ones(1, device="neuron")
    from trnscope.device import _C

    return _C


@pytest.fixture
def log(extension: Any) -> Iterator[Log]:
    from trnscope.runtime import connection

    timeline = connection.current().timeline
    timeline.flush()
    extension.connect_runtime(flush=lambda: None, event_time_ns=timeline.event_time_ns)
    yield Log(extension)
    extension.drain_log()
    extension.connect_runtime(flush=timeline.flush, event_time_ns=timeline.event_time_ns)


def test_layouts_are_equal(extension: Any) -> None:
    from trnscope.runtime.emission import EXECUTION_DTYPE

    layout = dict(extension.record_layout())
    assert layout.pop("itemsize") == LOG_DTYPE.itemsize
    fields = {name: LOG_DTYPE.fields[name] for name in LOG_DTYPE.names if name != "_pad"}  # type: ignore[index, union-attr]
    assert layout == {name: (field[1], field[0].itemsize) for name, field in fields.items()}
    assert extension.placed_execution_bytes == EXECUTION_DTYPE.itemsize


def test_exact_records_of_a_script(log: Log) -> None:
    x = torch.ones(3, 4, device="neuron")
    log.take()
    y = x * x
    y.relu_()
    host = y.cpu()
    torch.neuron.synchronize()
    records = log.take()
    assert log.names(records)[:3] == ["aten::mul.Tensor", "aten::relu_", "aten::copy_"]
    assert records["kind"].tolist() == [Kind.OP, Kind.OP, Kind.COPY_D2H, Kind.DEVICE_SYNC]
    assert records["origin"].tolist() == [Origin.EAGER, Origin.EAGER, Origin.COPY, Origin.EAGER]
    assert records["aux"].tolist() == [0, 0, 48, 0]
    assert [bool(flags & Flag.MUTATES) for flags in records["flags"][:2]] == [False, True]
    assert records["n_inputs"].tolist() == [2, 1, 1, 0]
    assert records["n_outputs"].tolist() == [1, 1, 0, 0]
    (a, b, c), (d, e) = log.storages(records[0]), log.storages(records[1])
    assert a == b
    assert c == d == e == log.storages(records[2])[0]
    assert c not in (0, a)
    assert np.diff(records["op_id"]).tolist() == [1, 1, 1]
    assert np.all(records["enter_ns"] < records["exit_ns"])
    assert np.all(records["exit_ns"][:-1] <= records["enter_ns"][1:])
    assert set(records["thread"].tolist()) == {threading.get_native_id()}
    assert set(records["seq_nr"].tolist()) == {-1}
    assert host.tolist() == [[1.0] * 4] * 3


def test_times_are_unix_time(log: Log) -> None:
    import time

    x = torch.ones(4, device="neuron")
    log.take()
    before = time.time_ns()
    x.neg()
    time.sleep(0.01)
    x.neg()
    after = time.time_ns()
    records = log.take()
    slack_ns = 20_000  # reading two clocks
    assert before - slack_ns <= records["enter_ns"][0]
    assert records["exit_ns"][1] <= after + slack_ns
    assert records["enter_ns"][1] - records["exit_ns"][0] >= 10_000_000 - slack_ns


def test_signature_describes_the_call(log: Log, extension: Any) -> None:
    x = torch.ones(4, 6, device="neuron", dtype=torch.bfloat16)
    log.take()
    torch.add(x[1:, ::2], x[0, ::2], alpha=2)
    x.mean(-1, keepdim=True, dtype=torch.float32)
    torch.cat([x, x], 1)
    records = log.take()
    assert extension.describe_signature(int(records[0]["signature"])) == (
        "aten::add.Tensor",
        (("bfloat16", (3, 3), (6, 2), 6), ("bfloat16", (3,), (2,), 0)),
        (("bfloat16", (3, 3), (3, 1), 0),),
        (("alpha", 2),),
        (),
        (),
    )
    assert extension.describe_signature(int(records[1]["signature"])) == (
        "aten::mean.dim",
        (("bfloat16", (4, 6), (6, 1), 0),),
        (("float32", (4, 1), (1, 1), 0),),
        (("dim", (-1,)), ("keepdim", True), ("dtype", "float32")),
        (),
        (),
    )
    cat = extension.describe_signature(int(records[2]["signature"]))
    assert (cat[0], len(cat[1]), cat[2][0][1], cat[3]) == ("aten::cat", 2, (4, 12), (("dim", 1),))


def test_mutation_and_aliases(log: Log, extension: Any) -> None:
    x, out = torch.ones(4, device="neuron"), torch.empty(4, device="neuron")
    log.take()
    torch.add(x, x, out=out)
    described = extension.describe_signature(int(log.take()[0]["signature"]))
    assert (described[0], described[4], described[5]) == ("aten::add.out", (2,), (0,))


def test_same_call_same_signature_whatever_the_storage(log: Log) -> None:
    x, y = torch.ones(5, device="neuron"), torch.zeros(5, device="neuron")
    log.take()
    x * x, y * y, x * torch.ones(5, 1, device="neuron"), x.double() * y.double()
    records = log.take()
    products = [
        s for s, name in zip(records["signature"], log.names(records), strict=True) if name.endswith("mul.Tensor")
    ]
    assert products[0] == products[1]
    assert len(set(products)) == 3


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [(0.1, 0.2, True), (2.0, 3.0, False), (0.5, 0.1, False), (1e9, 2e-9, True), (2.0, 2.0, True)],
)
def test_only_special_real_numbers_are_told_apart(log: Log, first: float, second: float, same: bool) -> None:
    x = torch.ones(4, device="neuron")
    log.take()
    torch.pow(x, first)
    torch.pow(x, second)
    signatures = log.take()["signature"]
    assert (signatures[0] == signatures[1]) is np.bool_(same)


def test_failed_and_muted_ops_leave_no_record(log: Log, extension: Any) -> None:
    x = torch.ones(3, 4, device="neuron")
    log.take()
    with pytest.raises(RuntimeError):
        x @ x
    with extension.MuteRecording():
        x * x
    assert len(log.take()) == 0
    x * x
    assert len(log.take()) == 1


def test_graph_launch_is_one_record(log: Log, extension: Any) -> None:
    from trnscope.graph.spec import GraphSpec
    from trnscope.runtime.signatures import register_graph

    signature = register_graph(GraphSpec("graph", "inference", (), (), ()))
    x = torch.ones(3, device="neuron")
    log.take()
    with extension.GraphLaunch(signature, [x]) as launch:
        y = (x * 2).relu()
        launch.commit(0, 0, [y])
    (record,) = log.take()
    assert (record["kind"], record["origin"], record["signature"]) == (Kind.GRAPH, Origin.COMPILED, signature)
    assert (record["n_inputs"], record["n_outputs"]) == (1, 1)
    with pytest.raises(ValueError, match="outside of its with block"):
        launch.commit(0, 0, [y])


def test_abandoned_graph_launch_leaves_no_record(log: Log, extension: Any) -> None:
    x = torch.ones(3, device="neuron")
    log.take()
    with pytest.raises(KeyError), extension.GraphLaunch(1 << 31, [x]):
        raise KeyError("failed")
    x * x
    assert log.names(log.take()) == ["aten::mul.Tensor"]


def test_backward_phase_and_sequence_numbers(log: Log) -> None:
    x = torch.ones(3, device="neuron", requires_grad=True)
    w = torch.ones(3, device="neuron")
    log.take()
    y = x * w
    w * w
    z = y.exp()
    z.sum().backward()
    records = log.take()
    names = log.names(records)
    forward = records[records["phase"] == Phase.FORWARD]
    backward = records[records["phase"] == Phase.BACKWARD]
    assert log.names(forward)[:4] == ["aten::mul.Tensor", "aten::mul.Tensor", "aten::exp", "aten::sum.dim_IntList"]
    mul, plain, exp, total = forward["seq_nr"][:4].tolist()
    assert plain == -1
    assert (exp, total) == (mul + 1, mul + 2)
    assert np.all(backward["graph_task"] >= 0)
    assert np.all(forward["graph_task"] == -1)
    by_node = {int(r["seq_nr"]): name for r, name in zip(records, names, strict=True) if r["graph_task"] >= 0}
    assert by_node[exp] == "aten::mul.Tensor"
    assert by_node[mul] == "aten::mul.Tensor"
    assert set(backward["thread"].tolist()).isdisjoint(forward["thread"].tolist())


def test_module_and_optimizer_marks(log: Log, extension: Any) -> None:
    x = torch.ones(3, device="neuron")
    log.take()
    assert extension.set_current_module(7) == 0
    x * x
    assert extension.set_current_module(0) == 7
    assert extension.set_optimizer_phase(True) is False
    x * x
    assert extension.set_optimizer_phase(False) is True
    extension.record_mark(42)
    records = log.take()
    assert records["module"].tolist() == [7, 0, 0]
    assert records["phase"].tolist() == [Phase.FORWARD, Phase.OPTIMIZER, Phase.FORWARD]
    assert (records["kind"][2], records["aux"][2]) == (Kind.MARK, 42)


def test_threads_are_merged_in_order_of_entry(log: Log) -> None:
    x = torch.ones(8, device="neuron")
    log.take()
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        for _ in range(500):
            x * x

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = log.take()
    assert len(records) == 2000
    assert np.all(np.diff(records["enter_ns"]) >= 0)
    assert np.array_equal(np.diff(records["op_id"]), np.ones(1999))
    assert np.unique(records["thread"], return_counts=True)[1].tolist() == [500] * 4
    assert len(np.unique(records["signature"])) == 1


def test_signatures_survive_one_reset(log: Log, extension: Any) -> None:
    x = torch.ones(6, device="neuron")
    log.take()
    x.sin()
    before = int(log.take()[0]["signature"])
    extension.reset_signatures()
    assert extension.signature_count() == 0
    assert extension.describe_signature(before)[0] == "aten::sin"
    x.sin()
    after = int(log.take()[0]["signature"])
    assert after > before
    assert extension.describe_signature(after)[0] == "aten::sin"
    extension.reset_signatures()
    assert extension.describe_signature(before) is None


def test_folding_keeps_memory_flat(extension: Any) -> None:
    from trnscope.runtime import connection

    timeline = connection.current().timeline
    x = torch.ones(4, device="neuron")

    def resident_bytes() -> int:
        with open("/proc/self/statm") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * 4096

    def work(count: int) -> None:
        for _ in range(count):
            torch.add(x, x, out=x)

    work(50_000)
    before, count = resident_bytes(), timeline.state.count
    work(1_000_000)
    assert resident_bytes() - before < 20 * 2**20
    folded = timeline.state.count - count
    assert 1_000_000 - 4096 <= folded <= 1_000_000 + 4096


def test_folding_errors_do_not_reach_the_script(extension: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)

    def broken() -> None:
        raise OSError("no clock")

    extension.drain_log()
    extension.connect_runtime(flush=broken, event_time_ns=lambda event: 0)
    x = torch.ones(2, device="neuron")
    for _ in range(4200):
        x.neg_()
    assert "no clock" in str(reported[0].exc_value)
    assert len(log.take()) >= 4200
