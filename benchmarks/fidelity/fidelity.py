"""Modelled against measured device time, per operator, beside two baselines.

    python benchmarks/fidelity/fidelity.py DATA_DIRECTORY [--rows OPERATOR] [--json]

DATA_DIRECTORY holds `tilebench_trn2_calibration.jsonl` (not part of this repository); without it the script says so
and succeeds. The baselines see the same ops: a roofline times one fitted factor, and per execution a fixed 15.2 us
plus the largest resource plus 0.3 of the second.
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


def resources_us(modelled: Modelled, target: Target) -> tuple[float, float]:
    """Roofline times of one op: HBM bytes, and products on the TensorEngine or elements on the VectorEngine."""
    cores = target.physical_cores
    moved = modelled.hbm_read_bytes + modelled.hbm_write_bytes
    memory = moved / (368e3 * cores)
    compute = max(modelled.engine_busy_ns) / 1e3 / cores
    return memory, compute


def evaluate(path: Path) -> list[dict[str, Any]]:
    target = Target("trn2", 2)
    results = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        ops: list[OpSpec] | None = calls(row)
        if ops is None or not row["torch_us"]:
            continue
        modelled = [model(op, target) for op in ops]
        pairs = [resources_us(m, target) for m in modelled]
        results.append(
            {
                "op": row["op"],
                "params": row["params"],
                "dtype": row["dtype"],
                "measured_us": row["torch_us"],
                "modelled_us": sum(m.device_time_ns for m in modelled) / 1e3,
                "low_us": sum(m.low_ns for m in modelled) / 1e3,
                "high_us": sum(m.high_ns for m in modelled) / 1e3,
                "roofline_us": sum(max(pair) for pair in pairs),
                "line_us": sum(15.2 + max(pair) + 0.3 * min(pair) for pair in pairs),
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
