"""What recording costs: time per op, memory per op inside a window, and ending windows of 20,000 ops.

Every ratio compares runs of one process, interleaved, and takes the best of each side. `--json` prints one object.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from trnscope.device import _C
from trnscope.runtime import connection

LIMITS = {"recording_us_per_op": 0.2, "window_bytes_per_op": 200.0, "unprofiled_growth_mib": 20.0}


def per_op_us(work: Callable[[], object], ops: int) -> float:
    start = time.perf_counter()
    for _ in range(ops):
        work()
    return (time.perf_counter() - start) / ops * 1e6


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def recording_us_per_op(rounds: int = 40, ops: int = 8192) -> dict[str, float]:
    """Time that a record adds to `add` on 4 elements, folding included (two folds per round)."""
    a, b = torch.ones(4, device="neuron"), torch.ones(4, device="neuron")

    def work() -> torch.Tensor:
        return torch.add(a, b)

    per_op_us(work, ops)
    recorded, muted = [], []
    for _ in range(rounds):
        recorded.append(per_op_us(work, ops))
        with _C.MuteRecording():
            muted.append(per_op_us(work, ops))
    return {
        "add_recorded_us": min(recorded),
        "add_muted_us": min(muted),
        "recording_us_per_op": min(recorded) - min(muted),
    }


def window_bytes_per_op(ops: int = 400_000) -> float:
    """Growth of resident memory per op while the runtime keeps a window.

    Without torch's own profiler, whose memory is not counted; the log is handed over and placed in portions, so that
    the placement is counted as well.
    """
    timeline = connection.current().timeline
    x = torch.ones(4, device="neuron")
    timeline.open_window()
    for _ in range(ops // 10):
        torch.add(x, x, out=x)
    gc.collect()
    before = resident_bytes()
    for _ in range(ops):
        torch.add(x, x, out=x)
    growth = resident_bytes() - before
    timeline.close_window()
    return growth / ops


def unprofiled_growth_mib(ops: int) -> float:
    """Growth of resident memory over a loop without a profiler, after a warm-up of a tenth of it."""
    x = torch.ones(4, device="neuron")
    for _ in range(ops // 10):
        torch.add(x, x, out=x)
    before = resident_bytes()
    for _ in range(ops):
        torch.add(x, x, out=x)
    return (resident_bytes() - before) / 2**20


def window_end_s(ops: int = 20_000) -> dict[str, float]:
    """Ending a plain profile of 20,000 ops: the runtime's part and all of it, torch's parsing included."""
    windows = connection.current().windows
    spent = {"stop": 0.0, "finish": 0.0}

    def timed(name: str) -> Callable[[], object]:
        inner = getattr(windows, name)

        def call() -> object:
            start = time.perf_counter()
            result = inner()
            spent[name] += time.perf_counter() - start
            return result

        return call

    _C.connect_windows(start=windows.start, stop=timed("stop"), finish=timed("finish"))
    x = torch.ones(4, device="neuron")
    profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1])
    profiler.start()
    for _ in range(ops):
        x * x
    start = time.perf_counter()
    profiler.stop()
    return {
        "window_stop_s": spent["stop"],
        "window_finish_s": spent["finish"],
        "profiler_stop_s": time.perf_counter() - start,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--ops", type=int, default=1_000_000, help="ops of the unprofiled loop (10,000,000 is an hour's)"
    )
    arguments = parser.parse_args()
    results: dict[str, float] = {
        **recording_us_per_op(),
        "window_bytes_per_op": window_bytes_per_op(),
        "unprofiled_growth_mib": unprofiled_growth_mib(arguments.ops),
        **window_end_s(),
    }
    failed = [name for name, limit in LIMITS.items() if results[name] > limit]
    if arguments.json:
        print(json.dumps({**results, "limits": LIMITS, "failed": failed}, indent=1))
    else:
        for name, value in results.items():
            limit = f"  (limit {LIMITS[name]:g})" if name in LIMITS else ""
            print(f"{name:24} {value:10.3f}{limit}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
