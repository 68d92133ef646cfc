"""A small capture written by hand, in a window [0, 1200) ns.

Core 0, stream 0:   add [100, 130)   mul [150, 250)   mul [250, 350)   copy [600, 640)
Core 0, stream 1:   sort [300, 400)
Core 1, stream 0:   graph [1000, 1500), beyond the window
"""

from pathlib import Path
from typing import Any

from handmade import write_capture

GRAPH = "neuron_graph_inference_0"


def execution(exec_id: int, op_id: int, submit_ns: int, start_ns: int, end_ns: int, **more: Any) -> dict[str, Any]:
    row = {"exec_id": exec_id, "op_id": op_id, "submit_ns": submit_ns, "start_ns": start_ns, "end_ns": end_ns}
    return row | {"device_time_ns": end_ns - start_ns, "category": "kernel", "flow_id": exec_id} | more


def op(op_id: int, name: str, start_ns: int, end_ns: int, origin: str = "eager", **more: Any) -> dict[str, Any]:
    return {"op_id": op_id, "op": name, "host_start_ns": start_ns, "host_end_ns": end_ns, "origin": origin} | more


TABLES: dict[str, list[dict[str, Any]]] = {
    "OpRecord": [
        op(0, "aten::add.Tensor", 80, 90),
        op(1, "aten::mul.Tensor", 90, 100),
        op(2, "aten::view", 100, 101, is_view=True),
        op(3, "aten::mul.Tensor", 101, 121),
        op(4, "aten::sort", 121, 131),
        op(5, "aten::_copy_from", 500, 560, "copy"),
        op(6, GRAPH, 700, 795, "compiled"),
    ],
    "Execution": [
        execution(10, 0, 85, 100, 130, program_id=1, first_use=True),
        execution(11, 1, 95, 150, 250, program_id=2),
        execution(12, 3, 110, 250, 350, program_id=3),
        execution(13, 4, 125, 300, 400, program_id=4, stream=1),
        execution(14, 5, 550, 600, 640, category="copy", name="Copy H2D"),
        execution(15, 6, 750, 1000, 1500, program_id=5, device=1),
    ],
    "Program": [
        {"program_id": 1, "key": "aa", "low_ns": 20, "high_ns": 60, "flops": 4, "bound": "overhead"}
        | {"confidence": "validated", "hbm_read_bytes": 32, "hbm_write_bytes": 16},
        {"program_id": 2, "key": "bb", "low_ns": 90, "high_ns": 120, "flops": 8, "bound": "memory"}
        | {"confidence": "validated", "hbm_read_bytes": 64, "hbm_write_bytes": 32},
        {"program_id": 3, "key": "cc", "low_ns": 80, "high_ns": 130, "flops": 8, "bound": "compute"}
        | {"confidence": "unseen", "hbm_read_bytes": 64, "hbm_write_bytes": 32},
        {"program_id": 4, "low_ns": 50, "high_ns": 200, "bound": "latency", "confidence": "single-witness"},
        {"program_id": 5, "low_ns": 400, "high_ns": 700, "bound": "memory", "confidence": "single-witness"},
    ],
    "HostInterval": [
        {"thread": 8, "category": "dispatch", "start_ns": 121, "end_ns": 131},
        {"thread": 7, "category": "python", "start_ns": 0, "end_ns": 80},
        {"thread": 7, "category": "dispatch", "start_ns": 80, "end_ns": 90},
        {"thread": 7, "category": "dispatch", "start_ns": 90, "end_ns": 121, "uncertain": True},
        {"thread": 7, "category": "copy", "start_ns": 500, "end_ns": 560},
        {"thread": 7, "category": "sync", "start_ns": 795, "end_ns": 1200},
    ],
    "SystemProfileEvents": [
        {"name": "nrt_load", "duration_ns": 12, "flow_id": ["10"]},
        {"name": "nrt_execute", "duration_ns": 30, "flow_id": ["10"]},
        {"name": "nrt_load", "duration_ns": 3, "flow_id": ["10"]},
    ],
    "Step": [{"step": 0, "start_ns": 0, "end_ns": 600}, {"step": 1, "start_ns": 600, "end_ns": 1200}],
    "DataQuality": [{"kind": "dropped-executions", "count": 3, "detail": "Three are gone."}],
}


def annotation(name: str, start_ns: int, end_ns: int) -> dict[str, Any]:
    times = {"ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000}
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 7} | times


TRACE = {
    "traceEvents": [
        annotation("eager", 70, 100),
        annotation("whole", 70, 800),
        annotation("eager", 101, 200),
        annotation("compiled", 700, 800),
        annotation("nothing", 900, 1000),
    ]
}


def write_example(directory: Path, **manifest: Any) -> Path:
    """Write it at `directory`."""
    return write_capture(directory, TABLES, trace=TRACE, window={"end_ns": 1200}, **manifest)
