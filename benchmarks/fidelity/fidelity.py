"""Modelled against measured device time, per operator, beside two baselines.

    python benchmarks/fidelity/fidelity.py DATA_DIRECTORY [--rows OPERATOR] [--json]

DATA_DIRECTORY holds `tilebench_trn2_calibration.jsonl` (not part of this repository); without it the script says so
and succeeds. The baselines see the same ops, with every tensor moved once: a roofline of documented peaks times one
fitted factor,
and per execution a fixed 15.2 us plus the largest resource plus 0.3 of the other one.
"""

import argparse
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from programs import calls

from trnscope.chips import Target
from trnscope.graph.spec import OpSpec
from trnscope.kernels import Modelled, model

ERRATIC = frozenset({"reverse_array", "histogramming", "interleave"})
"""Reported, never counted in the totals: their times jump by factors between neighbouring sizes."""


ROOF_BYTES_PER_US = 736e3
"""Two physical cores at the documented 368 GB/s."""
LINE_BYTES_PER_US = 650e3


def roofline_us(op: OpSpec, modelled: Modelled, target: Target) -> float:
    """The larger of bytes over documented bandwidth and products over documented peak (fp32 at a quarter)."""
    on_tensor = sum(core.tensor_flops for core in modelled.program.cores)
    peak = target.spec.value("peak_flops_half") * target.physical_cores / 1e6
    peak /= target.spec.value("matmul_fp32_passes") if op.inputs[0].dtype == "float32" else 1
    moved = sum(t.unique_bytes for t in (*op.inputs, *op.outputs))
    return max(moved / ROOF_BYTES_PER_US, on_tensor / peak)


def line_us(op: OpSpec, modelled: Modelled, target: Target) -> float:
    """15.2 us + largest resource + 0.3 x the other one, with documented engine cycles."""
    memory = sum(t.unique_bytes for t in (*op.inputs, *op.outputs)) / LINE_BYTES_PER_US
    engines = max(modelled.engine_busy_ns) / 1e3 / target.physical_cores
    return 15.2 + max(memory, engines) + 0.3 * min(memory, engines)


def evaluate(path: Path) -> list[dict[str, Any]]:
    target = Target("trn2", 2)
    results = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        ops: list[OpSpec] | None = calls(row)
        if ops is None or not row["torch_us"]:
            continue
        modelled = [model(op, target) for op in ops]
        pairs = list(zip(ops, modelled, strict=True))
        results.append(
            {
                "op": row["op"],
                "params": row["params"],
                "dtype": row["dtype"],
                "measured_us": row["torch_us"],
                "modelled_us": sum(m.device_time_ns for m in modelled) / 1e3,
                "low_us": sum(m.low_ns for m in modelled) / 1e3,
                "high_us": sum(m.high_ns for m in modelled) / 1e3,
                "roofline_us": sum(roofline_us(op, m, target) for op, m in pairs),
                "line_us": sum(line_us(op, m, target) for op, m in pairs),
                "bound": "/".join(dict.fromkeys(m.bound for m in modelled)),
                "kernel": "/".join(dict.fromkeys(m.kernel for m in modelled)),
            }
        )
    factor = statistics.median(r["measured_us"] / r["roofline_us"] for r in results if r["op"] not in ERRATIC)
    for result in results:
        result["roofline_us"] *= factor
    return results


def error(result: dict[str, Any], column: str) -> float:
    return 100 * (result[column] / result["measured_us"] - 1)


def summary(results: list[dict[str, Any]], columns: tuple[str, ...]) -> list[str]:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        groups[result["op"]].append(result)
    counted = [r for r in results if r["op"] not in ERRATIC]
    lines = [f"{'operator':24}{'n':>5}  {'model med/MAPE':>16}{'bias':>7}{'inside':>8}{'roof x f':>16}{'0.3 line':>16}"]
    for name, group in [*sorted(groups.items()), ("all gated", counted)]:
        cells = []
        for column in columns:
            absolute = [abs(error(r, column)) for r in group]
            cells.append(f"{statistics.median(absolute):8.1f} /{statistics.mean(absolute):6.1f}")
        inside = statistics.mean(r["low_us"] <= r["measured_us"] <= r["high_us"] for r in group)
        bias = statistics.median(error(r, columns[0]) for r in group)
        note = "  (not counted)" if name in ERRATIC else ""
        lines.append(f"{name:24}{len(group):5}  {cells[0]}{bias:7.1f}{inside:8.0%}{cells[1]}{cells[2]}{note}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", metavar="OPERATOR", help="print every row of one operator")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    path = options.data / "tilebench_trn2_calibration.jsonl"
    if not path.exists():
        print(f"skipped: {path} is not there")
        return 0
    results = evaluate(path)
    if options.json:
        json.dump(results, sys.stdout, indent=1)
    elif options.rows:
        for r in results:
            if r["op"] == options.rows:
                print(
                    f"{r['params']:28}{r['dtype']:6}{r['measured_us']:11.1f}{r['modelled_us']:11.1f}"
                    f"{error(r, 'modelled_us'):8.1f} %  {r['bound']} {r['kernel']}"
                )
    else:
        print("\n".join(summary(results, ("modelled_us", "roofline_us", "line_us"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
