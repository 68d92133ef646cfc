"""`SystemProfileEvents`: what happens between the framework and the hardware, for each kept execution.

One flow joins the rows of an execution. Their layout in time is modelled from the execution's own times:

* framework: the op's dispatch, and within it the launch, on the host's clock;
* neuron_rt: `nrt_execute` from the moment the runtime takes the execution up until it ends, in it `kbl_exec_pre` until
  the start on the device and `kbl_exec_wait` from there on; before it, at the first use of a program, `nrt_load`, which
  has no length because the time to load a program is not modelled. Host copies are `nrt_tensor_write` or
  `nrt_tensor_read` around `dmem_buf_copyin` or `dmem_buf_copyout`;
* neuron_hw: one `nc_exec_running` per physical core. Copies run on DMA engines alone and have none.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trnscope.profiling.framework_tables import first_uses, flow_ids, op_names
from trnscope.profiling.placement import Bools, Ints, PlacedWindow
from trnscope.schema.records import Kind

Columns = dict[str, Any]

LAUNCH_NAME: Final = "privateuse1_runtime"
_OP: Final = ""
"""Stands for the op's own name; the first kind of rows."""
SOURCES: Final = ("framework", "neuron_rt", "neuron_hw")
_FRAMEWORK, _RUNTIME, _HARDWARE = range(3)

_COPY_EVENTS: Final = {
    Kind.COPY_H2D: ("nrt_tensor_write", "dmem_buf_copyin"),
    Kind.COPY_D2H: ("nrt_tensor_read", "dmem_buf_copyout"),
}


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one name; `of` points at their kept executions."""

    name: str
    source: int
    of: Ints
    start: Ints
    end: Ints
    pcore: int = -1


def system_profile_events(
    view: PlacedWindow,
    loaded_before: Collection[str],
    *,
    instance: str,
    process_id: int,
    rank: int,
    physical_cores: int,
    launch_latency_ns: int,
) -> Columns:
    """The table's columns, sorted by start.

    Args:
        loaded_before: keys of programs that ran before the window.
        instance: instance of the capture.
        physical_cores: per logical NeuronCore.
        launch_latency_ns: from the queue to the earliest start on an idle device.
    """
    chosen = view.kept
    log = view.log[chosen]
    begun, submit = view.placed.host_start_ns[chosen], view.submit_ns[chosen]
    start, end = view.placed.device_start_ns[chosen], view.placed.device_end_ns[chosen]
    # With its stream busy, an execution waits in the queue and the runtime takes it up in time for its start.
    taken = np.maximum(submit, start - launch_latency_ns)
    fresh = first_uses(view, loaded_before)[chosen]
    programs, everything = ~view.is_copy[chosen], np.ones(len(log), np.bool_)
    host_copy = np.isin(log["kind"], list(_COPY_EVENTS))

    rows = [
        _rows(everything, _OP, _FRAMEWORK, begun, view.placed.host_end_ns[chosen]),
        _rows(everything, LAUNCH_NAME, _FRAMEWORK, begun, submit),
        _rows(fresh, "nrt_load", _RUNTIME, taken, taken),
        _rows(~host_copy, "nrt_execute", _RUNTIME, taken, end),
        _rows(~host_copy, "kbl_exec_pre", _RUNTIME, taken, start),
        _rows(~host_copy, "kbl_exec_wait", _RUNTIME, start, end),
    ]
    for kind, (call, transfer) in _COPY_EVENTS.items():
        rows.append(_rows(log["kind"] == kind, call, _RUNTIME, taken, end))
        rows.append(_rows(log["kind"] == kind, transfer, _RUNTIME, start, end))
    rows += [_rows(programs, "nc_exec_running", _HARDWARE, start, end, pcore) for pcore in range(physical_cores)]
    return _columns(view, rows, instance, process_id, rank)


def _rows(chosen: Bools, name: str, source: int, start: Ints, end: Ints, pcore: int = -1) -> _Rows:
    of = np.flatnonzero(chosen)
    return _Rows(name, source, of, start[of], end[of], pcore)


def _columns(view: PlacedWindow, rows: list[_Rows], instance: str, process_id: int, rank: int) -> Columns:
    counts = [len(one.of) for one in rows]
    of = np.concatenate([one.of for one in rows])
    start = np.concatenate([one.start for one in rows])
    end = np.concatenate([one.end for one in rows])
    kind = np.repeat(np.arange(len(rows)), counts)  # rows of an execution stay in their order within one start
    order = np.lexsort((kind, start))
    of, start, end, kind = of[order], start[order], end[order], kind[order]
    source = np.array([one.source for one in rows])[kind]
    pcore = np.array([one.pcore for one in rows])[kind]

    log = view.log[view.kept]
    names = pa.array([one.name for one in rows]).take(pa.array(kind))
    names = pc.if_else(pa.array(kind == 0), op_names(view, log["signature"]).take(pa.array(of)), names)
    flows = pa.array(flow_ids(view)).cast(pa.string()).take(pa.array(of))
    device = log["device"].astype(np.int64)[of]
    return {
        "id": np.arange(len(of)),
        "name": names,
        "start_ts": start,
        "end_ts": end,
        "duration_ns": end - start,
        "trace_event_source": pa.array(SOURCES).take(pa.array(source)),
        "instance_id": pa.array([instance]).take(pa.array(np.zeros(len(of), np.int64))),
        "process_id": np.full(len(of), process_id),
        "thread_id": np.where(source == _HARDWARE, 0, log["thread"].astype(np.int64)[of]),
        "nc_idx": device,
        "pcore_idx": pa.array(pcore, mask=pcore < 0),
        "worker_gid": np.full(len(of), rank),
        "flow_id": pa.ListArray.from_arrays(pa.array(np.arange(len(of) + 1, dtype=np.int32)), flows),
        "framework_stream_id": pa.array(log["stream"].astype(np.int64)).cast(pa.string()).take(pa.array(of)),
        "extra_attributes_json": _attributes(view).take(pa.array(of)),
    }


def _attributes(view: PlacedWindow) -> pa.Array:
    """JSON of each kept execution, put together from columns."""
    chosen = view.kept
    exec_id = pa.array(view.placed.exec_id[chosen]).cast(pa.string())
    keys = [f',"model_name":{json.dumps(one.name)},"program":"{one.key}"' for one in view.placed.programs]
    program = view.placed.program[chosen]
    about = pa.array([*keys, ""]).take(pa.array(np.where(program >= 0, program, len(keys))))
    return pc.binary_join_element_wise('{"exec_id":', exec_id, about, ',"modelled":true}', "")
