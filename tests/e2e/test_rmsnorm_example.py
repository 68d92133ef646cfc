"""The walk-through: six executions against one, told the same by the table, the events and the trace."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from .conftest import ROOT, Run

pytestmark = pytest.mark.device

VERSIONS = ["six ops", "torch.rms_norm", "torch.compile"]


@pytest.fixture(scope="module")
def walk_through(run_script: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, list[list[dict]]]:
    """The example's answer, and the events of its three traces."""
    out = tmp_path_factory.mktemp("captures")
    script = ROOT / "examples" / "rmsnorm.py"
    answer = json.loads(run_script(script, "--rows", 128, "--hidden", 512, "--out", out, "--json").stdout)
    traces = sorted(out.glob("*_pid_*/*/trace.json"), key=lambda path: path.parent.name)
    return answer, [json.loads(path.read_text())["traceEvents"] for path in traces]


def of_category(events: list[dict], category: str) -> list[dict]:
    return [event for event in events if event.get("cat") == category]


def in_us(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def device_column(table: str) -> tuple[list[float], float]:
    """Self NEURON of the rows of CPU ops (those that spent time on the host), and the footer's total; microseconds."""
    lines = table.splitlines()
    head = re.split(r"\s{2,}", lines[1].strip())
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines[3:] if "%" in line]
    cells = [dict(zip(head, row, strict=True)) for row in rows]
    on_ops = [in_us(row["Self NEURON"]) for row in cells if in_us(row["CPU total"]) > 0]
    footer = re.search(r"Self NEURON time total: (\S+)", table).group(1)
    return on_ops, in_us(footer)


def test_six_one_one_executions(walk_through):
    answer, traces = walk_through
    assert [(v["version"], v["executions"]) for v in answer["versions"]] == list(zip(VERSIONS, (6, 1, 1), strict=True))
    assert len(traces) == 3


def test_the_answer_says_that_it_is_modelled(walk_through):
    answer, _ = walk_through
    assert answer["is_simulation"] is True
    assert any("modelled" in caveat for caveat in answer["caveats"])
    assert [v["published_us"] for v in answer["versions"]] == [2355, 403, 375]


def test_kernels_are_the_ops_of_the_formula(walk_through):
    _, (eager, fused, compiled) = walk_through
    names = [Counter(event["name"] for event in of_category(events, "kernel")) for events in (eager, fused, compiled)]
    assert names[0] == {"aten::mul.Tensor": 3, "aten::mean.dim": 1, "aten::add.Tensor": 1, "aten::rsqrt": 1}
    assert names[1] == {"aten::_fused_rms_norm": 1}
    assert names[2] == {"neuron_graph_inference_0": 1}


@pytest.mark.parametrize("version", range(3), ids=VERSIONS)
def test_rows_add_up_to_the_footer(walk_through, version):
    answer, traces = walk_through
    row = answer["versions"][version]
    on_ops, footer = device_column(row["table"])
    kernels_us = sum(event["dur"] for event in of_category(traces[version], "kernel"))
    assert footer == pytest.approx(row["device_us"], abs=0.001)
    assert sum(on_ops) == pytest.approx(footer, abs=0.001 * len(on_ops))
    assert kernels_us == pytest.approx(footer, abs=0.001 * row["executions"])


@pytest.mark.parametrize("version", range(3), ids=VERSIONS)
def test_every_device_event_links_to_its_op(walk_through, version):
    _, traces = walk_through
    ops = {event["args"]["External id"]: event for event in of_category(traces[version], "cpu_op")}
    for kernel in of_category(traces[version], "kernel"):
        op = ops[kernel["args"]["External id"]]
        assert kernel["name"].split(".")[0] == op["name"]
        assert kernel["ts"] >= op["ts"]


@pytest.mark.parametrize("version", range(3), ids=VERSIONS)
def test_each_arrow_exists_once(walk_through, version):
    _, traces = walk_through
    events = traces[version]
    kernels = Counter(event["args"]["correlation"] for event in of_category(events, "kernel"))
    launches = Counter(event["args"]["correlation"] for event in of_category(events, "privateuse1_runtime"))
    arrows = of_category(events, "ac2g")
    assert set(kernels.values()) == {1}
    assert kernels.keys() <= launches.keys()
    assert all(launches[correlation] == 1 for correlation in kernels)
    for end in ("s", "f"):
        ids = Counter(event["id"] for event in arrows if event["ph"] == end)
        assert set(ids.values()) == {1}
        assert len(ids) == len(kernels)


def test_compiled_beats_six_ops_by_what_it_saves(walk_through):
    """At this size every execution costs its floor: six floors against one."""
    answer, _ = walk_through
    eager, _, compiled = (version["device_us"] for version in answer["versions"])
    assert 4.5 < eager / compiled < 6.5


def test_help_and_bad_values(run_script: Run, tmp_path: Path):
    script = ROOT / "examples" / "rmsnorm.py"
    assert "--per-execution-us" in run_script(script, "--help").stdout
    done = run_script(script, "--rows", 0, "--out", tmp_path, fails=True)
    assert "--rows and --hidden are at least 1, given 0 and 2048" in done.stderr
    assert "Traceback" not in done.stderr
