"""Makes tests/golden/rmsnorm again: captures of examples/rmsnorm.py that other tests read.

    python tools/make_golden.py

The example runs on a small shape with a modelled host, so that everything on the virtual clock is reproducible. What
depends on the machine and the moment is taken out: times count from the start of the window, real host times are 0,
threads and processes are numbered from 1, samples of the host, the trace and the program containers are left out.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trnscope.schema import TABLES
from trnscope.store.capture import Capture, find_captures
from trnscope.store.writer import CaptureWriter

ROOT: Final = Path(__file__).parents[1]
GOLDEN: Final = ROOT / "tests" / "golden" / "rmsnorm"
ARGUMENTS: Final = ("--rows", "256", "--hidden", "512")
WINDOWS: Final = ("1_six_ops", "2_rms_norm", "3_compiled")
"""Names of the example's windows, in its order."""

VIRTUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "OpRecord": ("host_start_ns", "host_end_ns"),
    "Execution": ("submit_ns", "start_ns", "end_ns"),
    "Tensor": ("alloc_ns", "free_ns"),
    "HostInterval": ("start_ns", "end_ns"),
    "Step": ("start_ns", "end_ns"),
    "SystemProfileEvents": ("start_ts", "end_ts"),
    "SystemProfileHbmUsage": ("timestamp",),
}
"""Columns on the virtual clocks: moved to the start of the window."""

REAL: Final[Mapping[str, tuple[str, ...]]] = {
    "OpRecord": ("submit_ns", "dispatch_ns"),
    "Graph": ("compile_ns",),
    "SystemProfileEvents": ("process_id",),
}
"""Columns of the real host: set to 0."""

THREADS: Final[Mapping[str, str]] = {
    "OpRecord": "thread",
    "HostInterval": "thread",
    "SystemProfileEvents": "thread_id",
}
LEFT_OUT: Final = ("ClockSync", "CpuUsage", "HostMemUsage")


def main() -> None:
    """Run the example and write its windows."""
    with tempfile.TemporaryDirectory() as output:
        subprocess.run(
            [sys.executable, str(ROOT / "examples" / "rmsnorm.py"), *ARGUMENTS, "--out", output],
            env={**os.environ, "TRNSCOPE_HOST": "modelled"},
            check=True,
        )
        captures = find_captures(Path(output))
        assert len(captures) == len(WINDOWS), [str(capture.directory) for capture in captures]
        shutil.rmtree(GOLDEN, ignore_errors=True)
        for name, capture in zip(WINDOWS, captures, strict=True):
            write_golden(capture, name)


def write_golden(capture: Capture, name: str) -> None:
    """One window without what depends on machine and moment."""
    start_ns = capture.manifest.window["start_ns"]
    tables = {
        table.name: pq.read_table(path)
        for table in TABLES.values()
        if table.name not in LEFT_OUT and (path := capture.table_path(table)) is not None
    }
    threads = _thread_numbers(tables)
    with CaptureWriter(GOLDEN, name) as writer:
        for table_name, table in tables.items():
            for column in VIRTUAL.get(table_name, ()):
                table = _with(table, column, pc.subtract(table[column], start_ns))
            for column in REAL.get(table_name, ()):
                table = _with(table, column, pa.repeat(0, len(table)))
            if (column := THREADS.get(table_name)) is not None:
                table = _with(table, column, pa.array([threads[t] for t in table[column].to_pylist()], pa.int64()))
            writer.add_table(table_name, table)
        window = dict(capture.manifest.window) | {"start_ns": 0, "end_ns": capture.length_ns}
        writer.commit(
            replace(
                capture.manifest,
                process_id=1,
                command=["rmsnorm.py", *ARGUMENTS],
                window=window,
                profile={},
                counts=writer.rows | {"dropped_executions": 0},
                files=[],
            )
        )


def _thread_numbers(tables: Mapping[str, pa.Table]) -> dict[int, int]:
    """System thread id -> 1, 2, ... in order of first appearance; 0 stays 0."""
    numbers = {0: 0}
    for name, column in THREADS.items():
        for thread in tables[name][column].to_pylist() if name in tables else []:
            numbers.setdefault(thread, len(numbers))
    return numbers


def _with(table: pa.Table, column: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(column), table.schema.field(column), values)


if __name__ == "__main__":
    main()
