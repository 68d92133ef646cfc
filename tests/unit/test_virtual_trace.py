"""Chrome traces in virtual time: host events move by the map of their thread, device events stay."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trnscope.core.clock import HostMap
from trnscope.profiling.virtual_trace import to_virtual
from trnscope.schema.records import Kind
from window_builder import MAIN, START, record
from window_builder import placed as window_of

US = 1_000
BASE = START - 5 * US


def event(category: str, start_us: str, length_us: str | None = None, tid: object = MAIN, name: str = "n") -> str:
    """An event in Kineto's layout: a slice, or an instant when it has no length."""
    instant = length_us is None
    lines = [
        "  {",
        f'    "ph": "{"i" if instant else "X"}",',
        *(["    "] if instant else []),
        f'    "cat": "{category}",',
        *(['    "s": "t",'] if instant else []),
        f'    "name": "{name}",',
        '    "pid": 1,',
        f'    "tid": {json.dumps(tid)},',
        f'    "ts": {start_us}' + ("" if instant else ","),
        *([] if instant else [f'    "dur": {length_us}']),
        "    ,",
        '    "args": {',
        '      "Ev Idx": 1',
        "    }",
        "  }",
    ]
    return "\n".join(lines)


def flow(phase: str, category: str, at_us: str, tid: int = MAIN) -> str:
    """One end of a flow in Kineto's layout."""
    lines = [
        "  {",
        f'    "ph": "{phase}",',
        '    "id": 1,',
        '    "pid": 1,',
        f'    "tid": {tid},',
        f'    "ts": {at_us},',
        f'    "cat": "{category}",',
        f'    "name": "{category}"',
        '    , "bp": "e"',
        "  }",
    ]
    return "\n".join(lines)


def moved(events: list[str], mapping: HostMap) -> dict[str, object]:
    head = f' {{\n    "schemaVersion": 1,\n    "baseTimeNanoseconds": {BASE},\n    "traceEvents": [\n'
    text = head + ",\n".join(events) + "\n]}"
    return json.loads(to_virtual(text.encode(), mapping, {"clock": "virtual"}))


def times(trace: dict[str, object]) -> list[tuple[float, float | None]]:
    return [(e["ts"], e.get("dur")) for e in trace["traceEvents"]]


def test_host_events_move_and_device_events_stay() -> None:
    # Python until 10 us, a dispatch of 490 us real that counts 60 us.
    mapping = window_of([record(Kind.OP, 10 * US, 500 * US, 1)], end=700 * US).mapping
    metadata = (
        '  {\n    "name": "process_name", "ph": "M", "pid": 1, "tid": 0, "ts": 13.000, "args": {"name": "python"}\n  }'
    )
    trace = moved(
        [
            event("cpu_op", "13.000", "495.000"),  # from 8 to 503 us after START
            event("python_function", "5.000", "705.000"),
            event("kernel", "300.000", "30.000", tid=0),
            event("privateuse1_driver", "300.000", "30.000", tid=0),
            event("gpu_user_annotation", "300.000", "30.000", tid=0),
            flow("s", "ac2g", "505.000"),
            flow("f", "ac2g", "300.000", tid=0),
            flow("f", "fwdbwd", "505.000"),
            event("cpu_instant_event", "515.000"),
            event("Trace", "5.000", "705.000", tid="PyTorch Profiler"),
            metadata,
        ],
        mapping,
    )
    assert times(trace) == [
        (13, 65),  # 2 us before the dispatch, 60 in it, 3 after it
        (5, 275),  # the window: 700 us real
        (300, 30),
        (300, 30),
        (300, 30),
        (75, None),
        (300, None),
        (75, None),
        (85, None),
        (5, 275),
        (13, None),
    ]
    assert trace["trnscope"] == {"clock": "virtual"}


def test_nanoseconds_survive_large_microseconds() -> None:
    mapping = window_of([record(Kind.OP, 10 * US, 500 * US, 1)]).mapping
    base = START - 6_000_000_000_000_000
    text = f'"baseTimeNanoseconds": {base},\n{event("cpu_op", "6000000000000.001", "0.003")}'
    changed = to_virtual(text.encode(), mapping, {}).decode()
    assert '"ts": 6000000000000.001,' in changed
    assert '"dur": 0.003\n' in changed


@pytest.mark.parametrize(
    ("written", "meant"),
    [('a "b" c', 'a "b" c'), (r"C:\new", r"C:\new"), (r"tab\t", "tab\t"), (r"q\"uote", 'q"uote'), ("end\\", "end\\")],
)
def test_names_that_kineto_left_unescaped_are_mended(written: str, meant: str) -> None:
    trace = moved([event("user_annotation", "13.000", "1.000", name=written)], window_of([]).mapping)
    # A backslash before a letter that JSON knows cannot be told from an escape.
    assert trace["traceEvents"][0]["name"] == ("C:\new" if written == r"C:\new" else meant)


def test_every_event_that_torch_writes_is_recognised(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "trace.json"
    activities = [torch.profiler.ProfilerActivity.CPU]
    with (
        torch.profiler.profile(
            activities=activities, with_stack=True, profile_memory=True, record_shapes=True
        ) as profile,
        torch.profiler.record_function('say "hi"'),
    ):
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
    profile.export_chrome_trace(str(path))
    raw = path.read_bytes()
    # A map that moves everything by one second shows what was found.
    knots = np.array([START, START + 1])
    mapping = HostMap({0: (knots, knots + 1_000_000_000)}, 1, 0)
    before = [float(t) for t in re.findall(rb'"ph": "[Xisf]".*?"ts": ([0-9.]+)', raw, re.DOTALL)]
    trace = json.loads(to_virtual(raw, mapping, {}))
    after = [e["ts"] for e in trace["traceEvents"] if e["ph"] in "Xisf"]
    assert len(after) == len(before) > 20
    shifts = [round(a - b) for a, b in zip(after, before, strict=True)]
    assert set(shifts) == {1_000_000}
    assert 'say "hi"' in [e["name"] for e in trace["traceEvents"]]
    assert {e["ph"] for e in trace["traceEvents"]} == {"X", "i", "s", "f", "M"}


# Whether Kineto names GPUs depends on what the process profiled before, so this is a process of its own.
EXPORT = """
import sys, torch
config = torch._C._profiler._ExperimentalConfig(custom_profiler_config="correlate_device_time:" + sys.argv[1])
x = torch.ones(3, device="neuron")
with torch.profiler.profile(experimental_config=config) as profile:
    x + x
profile.export_chrome_trace(sys.argv[2])
"""


@pytest.mark.device
@pytest.mark.parametrize("correlate", ["true", "false"])
def test_kinetos_names_for_gpus_are_dropped_and_ours_stay(correlate: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    subprocess.run([sys.executable, "-c", EXPORT, correlate, str(path)], cwd=tmp_path, check=True, timeout=120)
    raw = path.read_bytes()
    own, kinetos = {"neuron:0"}, {f"GPU {n}" for n in range(16)}

    def named(text: bytes) -> tuple[set[str], set[str]]:
        metadata = [e for e in json.loads(text)["traceEvents"] if e["ph"] == "M"]
        labels = {e["args"]["labels"] for e in metadata if e["name"] == "process_labels"}
        return labels, {e["args"]["name"] for e in metadata if e["name"] == "process_name" and e["pid"] == 0}

    before, _ = named(raw)
    after, names = named(to_virtual(raw, window_of([]).mapping, {}))
    assert before >= own | kinetos
    assert after == before - kinetos
    assert names == {"logical NeuronCore 0 (modelled)"}
