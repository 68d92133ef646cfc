"""What the device costs the host per dispatched op, beside the CPU's own dispatch.

Both sides are timed in one run, in alternating rounds, and the ratio of their best rounds is reported: figures of a
loaded machine move together. Run with `python benchmarks/overhead/overhead.py [--json]`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

LIMITS = {"add": 1.6, "view": 1.05}
"""Ratios that must hold: an op of four elements with its record, and a view."""


@dataclass(frozen=True)
class Overhead:
    """One op on both devices: least mean time of a call, in nanoseconds of wall time."""

    name: str
    cpu_ns: float
    neuron_ns: float
    ratio: float
    limit: float | None


def best_round_ns(functions: list[Callable[[], object]], rounds: int, calls: int) -> list[float]:
    """Least mean time of one call over alternating rounds, per function."""
    best = [float("inf")] * len(functions)
    repeat = range(calls)
    for _ in range(rounds):
        for place, function in enumerate(functions):
            start = time.perf_counter_ns()
            for _ in repeat:
                function()
            best[place] = min(best[place], (time.perf_counter_ns() - start) / calls)
    return best


def cases(device: str) -> dict[str, Callable[[], object]]:
    a = torch.ones(4, device=device)
    b = torch.ones(4, device=device)
    out = torch.empty(4, device=device)
    square = torch.ones(2, 2, device=device)
    weight = torch.nn.Parameter(torch.ones(4, device=device))
    return {
        "add": lambda: torch.add(a, b),
        "mul scalar": lambda: a * 2.0,
        "rsqrt": lambda: torch.rsqrt(a),
        "mean": lambda: a.mean(-1, keepdim=True),
        "add out=": lambda: torch.add(a, b, out=out),
        "add_": lambda: out.add_(b),
        "mm": lambda: torch.mm(square, square),
        "mul with autograd": lambda: a * weight,
        "view": lambda: a.view(2, 2),
        "transpose": lambda: square.t(),
        "empty": lambda: torch.empty(4, device=device),
    }


def measure(rounds: int = 150, calls: int = 500) -> list[Overhead]:
    host, device = cases("cpu"), cases("neuron")
    results = []
    with torch.no_grad():
        for name in host:
            cpu_ns, neuron_ns = best_round_ns([host[name], device[name]], rounds, calls)
            results.append(Overhead(name, cpu_ns, neuron_ns, neuron_ns / cpu_ns, LIMITS.get(name)))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--calls", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = measure(options.rounds, options.calls)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print(f"{'op on 4 elements':20} {'cpu ns':>8} {'neuron ns':>10} {'ratio':>6} {'limit':>6}")
        for r in results:
            limit = "" if r.limit is None else f"{r.limit:.2f}"
            print(f"{r.name:20} {r.cpu_ns:8.0f} {r.neuron_ns:10.0f} {r.ratio:6.2f} {limit:>6}")
    return int(any(r.limit is not None and r.ratio > r.limit for r in results))


if __name__ == "__main__":
    sys.exit(main())
