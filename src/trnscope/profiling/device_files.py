"""What a capture holds of the device: program tables in relative time, and trnscope's own .neff and .ntff containers.

Both containers begin with a line that says so (`CaptureLayout.NEFF_MAGIC`, `NTFF_MAGIC`), then one line of JSON.
In a .ntff an Arrow stream follows: the executions of one logical NeuronCore.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from trnscope.core.tables import program_tables, truncated_rows
from trnscope.profiling.placement import PlacedWindow
from trnscope.schema.capture import CaptureLayout

if TYPE_CHECKING:
    from trnscope.kernels import Modelled

PROGRAM_TABLES: Final = ("ProgramInstruction", "ProgramDmaPacketAggregated", "ProgramActiveTime")

_DESCRIBED: Final = (
    "key", "name", "kernel", "split", "device_time_ns", "low_ns", "high_ns", "bound", "confidence", "flops",
    "hbm_read_bytes", "hbm_write_bytes", "instructions", "transfers", "sbuf_peak_bytes", "psum_peak_bytes",
)  # fmt: skip


def used_programs(view: PlacedWindow) -> list[int]:
    """Positions in `placed.programs` of the programs that kept executions ran."""
    program = view.placed.program[view.kept]
    return [int(index) for index in np.unique(program[program >= 0])]


def device_tables(programs: Sequence["Modelled"], used: Iterable[int]) -> dict[str, pa.Table]:
    """The `Program*` tables of the programs `used`; their position is their `program_id`."""
    parts: dict[str, list[pa.Table]] = {name: [] for name in PROGRAM_TABLES}
    for index in used:
        for name, table in program_tables(index, programs[index]).items():
            parts[name].append(table)
    return {name: pa.concat_tables(tables) for name, tables in parts.items() if tables}


def truncated(programs: Sequence["Modelled"], used: Iterable[int]) -> int:
    """Instructions and transfers that long programs have too many of to be listed."""
    return sum(truncated_rows(programs[index]) for index in used)


def neff_content(modelled: "Modelled") -> list[bytes]:
    """A .neff container: what was lowered and to what."""
    return [
        CaptureLayout.NEFF_MAGIC,
        _line({name: getattr(modelled, name) for name in _DESCRIBED} | {"modelled": True}),
    ]


def containers(view: PlacedWindow) -> Iterator[tuple[str, list[bytes]]]:
    """(file name, parts) of one .neff per program and logical NeuronCore, and one .ntff per logical NeuronCore."""
    device, program = view.log["device"][view.kept].astype(np.int64), view.placed.program[view.kept]
    start, end = view.placed.device_start_ns[view.kept], view.placed.device_end_ns[view.kept]
    exec_id = view.placed.exec_id[view.kept]
    for core in np.unique(device[program >= 0]).tolist():
        mine = (device == core) & (program >= 0)
        used = np.unique(program[mine])
        keys = [view.placed.programs[index].key for index in used]
        for index, key in zip(used, keys, strict=True):
            yield CaptureLayout.neff(key, core), neff_content(view.placed.programs[index])
        table = pa.table(
            {
                "exec_id": exec_id[mine],
                "program": pa.array(keys).take(pa.array(np.searchsorted(used, program[mine]))),
                "start_ns": start[mine],
                "end_ns": end[mine],
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        about = {"nc_idx": core, "session": view.window.number, "executions": table.num_rows, "modelled": True}
        yield (
            CaptureLayout.ntff(core, view.window.number),
            [CaptureLayout.NTFF_MAGIC, _line(about), sink.getvalue().to_pybytes()],
        )


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
