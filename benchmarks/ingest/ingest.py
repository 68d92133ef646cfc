# ruff: noqa: E501 (the generated text is laid out as the profiler writes it)
"""How fast, and in how much memory, a chrome trace becomes an import: `python benchmarks/ingest/ingest.py`.

Generates torch-like traces, imports each in a process of its own and prints CPU seconds (user + system, start of the
interpreter included) and peak resident memory. `--hta PYTHON` names an interpreter that has HolisticTraceAnalysis: it
parses the same file in the same run, for comparison. The first import after an installation compiles the scanner;
that run is done beforehand and not counted.
"""

import argparse
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

TARGETS: Final = {"json": 2.5, "gzip": 3.5}
"""CPU seconds for 1 M events."""

RSS_TARGET_MB: Final = 400
GROWTH_TARGET_MB: Final = 50

_IMPORT: Final = """
import sys
from pathlib import Path
from trnscope.store.importer import import_traces
import_traces([Path(sys.argv[1])], Path(sys.argv[2]))
"""
_OPEN: Final = """
import sys, time
began = time.perf_counter()
from trnscope.store.trace import open_trace
trace = open_trace(sys.argv[1])
opened = time.perf_counter()
trace.sql("SELECT name, count(*), sum(duration_ns) FROM Slice GROUP BY 1 ORDER BY 3 DESC LIMIT 20").fetchall()
aggregated = time.perf_counter()
print(opened - began, aggregated - opened)
"""
_HTA: Final = """
import sys
from hta.common.trace_parser import parse_trace_file
parse_trace_file(sys.argv[1])
"""


def generate(path: Path, events: int) -> None:
    """About 310 bytes per event: op, launch, kernel and the two ends of their arrow."""
    rng = random.Random(1)
    with path.open("w") as out:
        out.write(
            '{\n  "schemaVersion": 1,\n  "deviceProperties": [{"id": 0, "name": "generated"}],\n  "traceEvents": [\n'
        )
        for k in range(1, events // 5 + 1):
            at = 1717000000000000 + k * 20
            shape = rng.choice(("[[64, 1024], [1024, 1024], []]", "[[8, 128, 768], [768], []]"))
            out.write(
                f'{"," if k > 1 else ""}  {{\n    "ph": "X", "cat": "cpu_op", "name": "aten::op{k % 50}", "pid": 100, "tid": 100,\n'
                f'    "ts": {at}.{k % 1000:03d}, "dur": 15.250,\n    "args": {{\n      "External id": {k},"Record function id": 0,'
                f' "Sequence number": {k}, "Fwd thread id": 0, "Concrete Inputs": ["", "", "1"], "Input type": ["float", "float",'
                f' "Scalar"], "Input Strides": [[1024, 1], [1, 1024], []], "Input Dims": {shape}, "Ev Idx": {k}\n    }}\n  }},\n'
                f'  {{\n    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 100,\n    "ts": {at + 2}.500,'
                f' "dur": 5.123,\n    "args": {{\n      "External id": {k}, "cbid": 211, "correlation": {k}\n    }}\n  }},\n'
                f'  {{\n    "ph": "s", "id": {k}, "pid": 100, "tid": 100, "ts": {at + 2}.500,\n    "cat": "ac2g", "name": "ac2g"\n  }},\n'
                f'  {{\n    "ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4, at::native::'
                f'CUDAFunctor_add<float>, std::array<char*, {k % 30}ul> >(int, at::native::CUDAFunctor_add<float>)", "pid": 0, "tid": 7,\n'
                f'    "ts": {at + 10}.000, "dur": {rng.random() * 9:.3f},\n    "args": {{\n      "External id": {k},\n      "queued": 0,'
                f' "device": 0, "context": 1,\n      "stream": 7, "correlation": {k},\n      "registers per thread": 18,\n      '
                f'"shared memory": 0,\n      "blocks per SM": 0.592593,\n      "warps per SM": 2.370370,\n      "grid": [64, 1, 1],\n'
                f'      "block": [128, 1, 1],\n      "est. achieved occupancy %": 4\n    }}\n  }},\n'
                f'  {{\n    "ph": "f", "id": {k}, "pid": 0, "tid": 7, "ts": {at + 10}.000,\n    "cat": "ac2g", "name": "ac2g", "bp": "e"\n'
                "  }\n"
            )
        out.write('  ],\n  "traceName": "generated.json"\n}\n')  # fmt: skip


def measure(interpreter: str, code: str, *arguments: str) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak MB of a process."""
    began = time.perf_counter()
    process = subprocess.Popen([interpreter, "-c", code, *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the measured process ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began, usage.ru_maxrss / 1024


def main() -> None:
    """Measure and print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=10_000_000, help="events of the memory test; 0 leaves it out")
    parser.add_argument("--hta", metavar="PYTHON", help="interpreter that has HolisticTraceAnalysis")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, dict[str, float]] = {}

    def record(name: str, cpu: float, wall: float, rss: float, target: float | None = None) -> None:
        results[name] = {"cpu_seconds": cpu, "wall_seconds": wall, "peak_rss_mb": rss}
        if not options.json:
            goal = f"  (target {target} CPU-s)" if target else ""
            print(f"{name:<28}{cpu:8.2f} CPU-s {wall:8.2f} s {rss:8.0f} MB{goal}", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        plain, packed, store = Path(scratch) / "trace.json", Path(scratch) / "trace.json.gz", Path(scratch) / "store"
        generate(plain, 1000)
        measure(sys.executable, _IMPORT, str(plain), str(store))
        shutil.rmtree(store)
        generate(plain, options.events)
        with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target)
        record("json", *measure(sys.executable, _IMPORT, str(plain), str(store)), TARGETS["json"])
        opened = subprocess.run([sys.executable, "-c", _OPEN, str(store)], check=True, capture_output=True, text=True)
        seconds, aggregate = map(float, opened.stdout.split())
        results["open"] = {"wall_seconds": seconds, "aggregate_seconds": aggregate}
        if not options.json:
            print(
                f"{'open, then an aggregate':<28}{seconds:8.2f} s {aggregate:8.2f} s  (targets 0.3 s, 0.5 s)",
                flush=True,
            )
        shutil.rmtree(store)
        record("gzip", *measure(sys.executable, _IMPORT, str(packed), str(store)), TARGETS["gzip"])
        shutil.rmtree(store)
        if options.hta:
            record("hta", *measure(options.hta, _HTA, str(packed)))
        if options.large:
            packed.unlink()
            generate(plain, options.large)
            record(f"json, {options.large:,} events", *measure(sys.executable, _IMPORT, str(plain), str(store)))
            growth = results[f"json, {options.large:,} events"]["peak_rss_mb"] - results["json"]["peak_rss_mb"]
            results["growth"] = {"peak_rss_mb": growth}
            if not options.json:
                print(f"{'growth of memory':<28}{growth:31.0f} MB  (target {GROWTH_TARGET_MB})", flush=True)
    if options.json:
        json.dump(results, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
