"""Tables of what the framework did: ops, programs, executions, modules and Python stacks."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from trnscope.graph.spec import GraphSpec, OpSpec
from trnscope.profiling.placement import Bools, Ints, PlacedWindow
from trnscope.schema.records import Flag, Kind, Origin, Phase

if TYPE_CHECKING:
    from trnscope.kernels import Modelled

Columns = dict[str, Any]

COPY_NAMES: Final = {Kind.COPY_H2D: "memcpy HtoD", Kind.COPY_D2H: "memcpy DtoH", Kind.COPY_D2D: "memcpy DtoD"}
"""Names of copies on the device track: the ones that the Kineto plugin shows."""

RECORD_KINDS: Final = (Kind.OP, Kind.GRAPH, *COPY_NAMES, Kind.COLLECTIVE, Kind.VIEW)
UNKNOWN: Final = "unknown"


def op_records(view: PlacedWindow) -> Columns:
    """`OpRecord`. Executions that were dropped or filtered out have no `exec_id`."""
    placed = view.placed
    chosen = np.isin(view.log["kind"], RECORD_KINDS)
    log = view.log[chosen]
    program = placed.program[chosen]
    exec_id = np.where(view.kept, placed.exec_id, -1)[chosen]
    first = log["tensors"].astype(np.int64)
    inputs = log["n_inputs"].astype(np.int64)
    return {
        "op_id": log["op_id"],
        "op": op_names(view, log["signature"]),
        "program_id": pa.array(program, mask=program < 0),
        "exec_id": pa.array(exec_id, mask=exec_id < 0),
        "device": log["device"].astype(np.int64),
        "stream": log["stream"].astype(np.int64),
        "thread": log["thread"].astype(np.int64),
        "seq_nr": log["seq_nr"],
        "correlation": log["correlation"].astype(np.int64),
        "external_id": log["correlation"].astype(np.int64),
        "submit_ns": log["enter_ns"],
        "dispatch_ns": log["exit_ns"] - log["enter_ns"],
        "host_start_ns": placed.host_start_ns[chosen],
        "host_end_ns": placed.host_end_ns[chosen],
        "inputs": _references(view, first, inputs),
        "outputs": _references(view, first + inputs, log["n_outputs"].astype(np.int64)),
        "signature_json": _signatures(view, log["signature"]),
        "module_id": _nullable(log["module"]),
        "stack_id": _nullable(log["stack"]),
        "phase": _named(log["phase"], [phase.name.lower() for phase in Phase]),
        "step": view.step[chosen],
        "origin": _named(log["origin"], [origin.name.lower() for origin in Origin]),
        "is_view": log["kind"] == Kind.VIEW,
        "mutates": (log["flags"] & Flag.MUTATES) != 0,
        "uncertain": placed.uncertain[chosen],
    }


def executions(view: PlacedWindow, loaded_before: Collection[str]) -> Columns:
    """`Execution`, in order of launch. Copies and forgotten programs have no `program_id`.

    Args:
        loaded_before: keys of programs that ran before the window.
    """
    placed, chosen = view.placed, view.kept
    log = view.log[chosen]
    program = placed.program[chosen]
    start, end = placed.device_start_ns[chosen], placed.device_end_ns[chosen]
    copies = view.is_copy[chosen]
    category = np.where(copies, 1, np.where(log["kind"] == Kind.COLLECTIVE, 2, 0))
    return {
        "exec_id": placed.exec_id[chosen],
        "program_id": pa.array(program, mask=program < 0),
        "op_id": log["op_id"],
        "device": log["device"].astype(np.int64),
        "stream": log["stream"].astype(np.int64),
        "category": _named(category, ["kernel", "copy", "collective"]),
        "name": execution_names(view),
        "submit_ns": view.submit_ns[chosen],
        "start_ns": start,
        "end_ns": end,
        "device_time_ns": end - start,
        "bytes": pa.array(log["aux"], mask=~copies),
        "flow_id": flow_ids(view),
        "first_use": first_uses(view, loaded_before)[chosen],
    }


def op_names(view: PlacedWindow, signature: np.ndarray) -> pa.Array:
    """Name of the op or graph behind each signature."""
    distinct, index = np.unique(signature, return_inverse=True)
    specs = [view.window.specs.get(int(one)) for one in distinct]
    return _named(index, [UNKNOWN if spec is None else spec.name for spec in specs])


def execution_names(view: PlacedWindow) -> pa.Array:
    """Name of each kept execution on the device track."""
    log, program = view.log[view.kept], view.placed.program[view.kept]
    names = [modelled.name for modelled in view.placed.programs]
    index = np.where(program >= 0, program, len(names))
    names.append(UNKNOWN)
    for kind, name in COPY_NAMES.items():
        index[log["kind"] == kind] = len(names)
        names.append(name)
    return _named(index, names)


def flow_ids(view: PlacedWindow) -> Ints:
    """Flow of each kept execution: unique in the process, so that captures of one process can be joined."""
    flows: Ints = view.placed.exec_id[view.kept] + 1
    return flows


def first_uses(view: PlacedWindow, loaded_before: Collection[str]) -> Bools:
    """Which records are the first execution of their program on their logical core.

    A program that ran before the window counts as loaded on every core.
    """
    program = view.placed.program
    fresh = np.array([modelled.key not in loaded_before for modelled in view.placed.programs] or [False])
    candidates = np.flatnonzero((program >= 0) & fresh[np.maximum(program, 0)])
    pairs = program[candidates] * (1 << 16) + view.log["device"][candidates]
    first: Bools = np.zeros(len(program), np.bool_)
    first[candidates[np.unique(pairs, return_index=True)[1]]] = True
    return first


def programs(modelled: Sequence["Modelled"]) -> Columns:
    """`Program`; the row number is the `program_id`."""
    names = (
        "key", "name", "kernel", "split", "device_time_ns", "low_ns", "high_ns", "bound", "confidence", "flops",
        "hbm_read_bytes", "hbm_write_bytes", "instructions", "transfers", "sbuf_peak_bytes", "psum_peak_bytes",
    )  # fmt: skip
    columns: Columns = {"program_id": list(range(len(modelled)))}
    return columns | {name: [getattr(one, name) for one in modelled] for name in names}


def modules(paths: Sequence[str], types: Sequence[str], parents: Sequence[int | None]) -> Columns:
    """`Module`; ids count from 1."""
    return {
        "module_id": list(range(1, len(paths) + 1)),
        "path": list(paths),
        "type": list(types),
        "parent_id": list(parents),
    }


def stacks(frames: Mapping[int, Sequence[tuple[str, int, str]]]) -> Columns:
    """`Stack`."""
    return {
        "stack_id": list(frames),
        "files": [[frame[0] for frame in stack] for stack in frames.values()],
        "lines": [[frame[1] for frame in stack] for stack in frames.values()],
        "functions": [[frame[2] for frame in stack] for stack in frames.values()],
    }


def _signatures(view: PlacedWindow, signature: np.ndarray) -> pa.Array:
    """JSON of each record's op; each distinct signature is formatted once."""
    distinct, index = np.unique(signature, return_inverse=True)
    return _named(index, [_signature_json(view.window.specs.get(int(one))) for one in distinct])


def _signature_json(spec: OpSpec | GraphSpec | None) -> str:
    """Inputs, outputs and what else the lowering depends on; the nodes of a graph are in `Graph`."""
    if spec is None:
        return "{}"
    described: dict[str, Any] = {
        "inputs": [asdict(tensor) for tensor in spec.inputs],
        "mutated": spec.mutated,
    }
    if isinstance(spec, OpSpec):
        described["outputs"] = [asdict(tensor) for tensor in spec.outputs]
        described["aliased"] = spec.aliased
        described["scalars"] = [
            [name, str(value) if isinstance(value, complex) else value] for name, value in spec.scalars
        ]
    else:
        described["outputs"] = [asdict(spec.spec_of(value)) for value in spec.outputs]
        described["kind"] = spec.kind
    return json.dumps(described, separators=(",", ":"), default=str)


def _references(view: PlacedWindow, first: Ints, count: Ints) -> pa.Array:
    """List of storage ids per record."""
    offsets = np.zeros(len(count) + 1, np.int32)
    np.cumsum(count, out=offsets[1:])
    index = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], count)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(view.window.refs[index].astype(np.int64)))


def _named(index: np.ndarray, names: Sequence[str]) -> pa.Array:
    """`names[index]` as an Arrow column."""
    if not len(names):
        return pa.array([], pa.string())
    return pa.array(names, pa.string()).take(pa.array(index.astype(np.int64)))


def _nullable(ids: np.ndarray) -> pa.Array:
    """Interned ids, 0 = null."""
    return pa.array(ids.astype(np.int64), mask=ids == 0)
