"""A small finished window, made by hand: what the runtime would give for a few lines of a script."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trnscope.chips import Target
from trnscope.core.clock import ClockCosts, ClockState, replay
from trnscope.graph.spec import OpSpec, TensorSpec
from trnscope.kernels.model import Modelled, model
from trnscope.profiling.placement import PlacedWindow, placed_window
from trnscope.profiling.settings import Settings
from trnscope.runtime.windows import Placed, Window
from trnscope.schema.records import EXECUTION_KINDS, LOG_DTYPE, Kind

COSTS = ClockCosts(
    eager_dispatch_ns=60_000,
    compiled_launch_ns=95_000,
    launch_latency_ns=1_000,
    copy_overhead_ns=20_000,
    sync_overhead_ns=5_000,
)
MAIN, WORKER = 100, 200
START = 1_900_000_000_000_000_000
"""Real and virtual start of the window."""

TENSOR = TensorSpec("float32", (4, 8), (8, 1))
MUL = OpSpec("aten::mul.Tensor", (TENSOR, TENSOR), (TENSOR,))
EXP = OpSpec("aten::exp", (TENSOR,), (TENSOR,))
COPY = OpSpec("aten::_copy_from", (TENSOR,), (TENSOR,))
SPECS = {1: MUL, 2: EXP, 3: COPY}
DURATIONS = {1: 30_000, 2: 50_000, 3: 4_000}


def record(kind: Kind, enter: int, leave: int, signature: int = 0, **more: Any) -> dict[str, Any]:
    """One record; times are real, after START."""
    fields = {"thread": MAIN, "graph_task": -1, "seq_nr": -1} | more
    return {"kind": kind, "enter_ns": START + enter, "exit_ns": START + leave, "signature": signature} | fields


def placed(
    records: Sequence[Mapping[str, Any]],
    *,
    settings: Settings | None = None,
    flags: Mapping[str, bool] | None = None,
    end: int = 1_000_000,
    mode: str = "measured",
    references: Sequence[int] = (),
    stacks: Mapping[int, list[tuple[str, int, str]]] | None = None,
    memory_events: np.ndarray | None = None,
    first_exec_id: int = 0,
) -> PlacedWindow:
    """The window of the records; each op runs for its DURATIONS."""
    log = np.zeros(len(records), LOG_DTYPE)
    log["op_id"] = np.arange(len(log))
    for i, fields in enumerate(records):
        for name, value in fields.items():
            log[name][i] = value
    durations = np.array([DURATIONS.get(int(s), 0) for s in log["signature"]], np.int64)
    _, times = replay(ClockState.initial(), log, durations, COSTS, mode)
    runs = np.isin(log["kind"], EXECUTION_KINDS)
    exec_id = np.where(runs, np.cumsum(runs) - 1 + first_exec_id, -1)
    signatures = [s for s in dict.fromkeys(log["signature"][runs].tolist()) if s in (1, 2)]
    program = np.array(
        [signatures.index(s) if run and s in signatures else -1 for s, run in zip(log["signature"], runs, strict=True)],
        np.int64,
    )
    window = Window(
        number=1,
        config_string="",
        torch_flags=dict(flags or {}),
        wants_device=True,
        real_start_ns=START,
        real_end_ns=START + end,
        log=log,
        refs=np.array(references, np.uint64),
        specs=SPECS,
        stacks=dict(stacks or {}),
        memory_events=np.empty(0) if memory_events is None else memory_events,
        threads={MAIN: "MainThread"},
    )
    programs = tuple(program_of(s) for s in signatures)
    return placed_window(window, Placed(times, exec_id, program, programs), COSTS, settings or Settings(), MAIN)


def program_of(signature: int) -> Modelled:
    return model(SPECS[signature], Target())
