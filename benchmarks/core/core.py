"""Speed of the model: rows swept per second, a large matrix product from op to schedule, a small op, a long loop.

    python benchmarks/core/core.py [--json]

CPU time of this thread, best of several runs; the kernel is compiled (or loaded from numba's cache) beforehand.
"""

import argparse
import json
import time
from collections.abc import Callable

from trnscope.chips import Target
from trnscope.core.machine import machine_of
from trnscope.core.schedule import schedule
from trnscope.graph.spec import OpSpec, TensorSpec
from trnscope.kernels import model


def matmul(m: int, k: int, n: int, dtype: str = "bfloat16") -> OpSpec:
    a, b, c = (TensorSpec(dtype, shape, (shape[1], 1)) for shape in ((m, k), (k, n), (m, n)))
    return OpSpec("aten::mm", (a, b), (c,))


def relu(n: int) -> OpSpec:
    x = TensorSpec("float32", (n,), (1,))
    return OpSpec("aten::relu", (x,), (x,))


def best_ms(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        before = time.thread_time()
        work()
        times.append(time.thread_time() - before)
    return min(times) * 1e3


def measure() -> dict[str, float]:
    target = Target()
    before = time.perf_counter()
    model(relu(128), target)
    first_ms = (time.perf_counter() - before) * 1e3
    large = model(matmul(65536, 4096, 16384), target)
    rows = large.program.cores[0].rows_executed
    sweep_ms = best_ms(lambda: schedule(large.program, machine_of(target), extrapolate=False), 5)
    return {
        "first_call_wall_ms": first_ms,
        "rows_swept": float(rows),
        "million_rows_per_s": rows / sweep_ms / 1e3,
        "matmul_4096_op_to_schedule_ms": best_ms(lambda: model(matmul(4096, 4096, 4096), target), 20),
        "small_op_ms": best_ms(lambda: model(relu(65536), target), 100),
        "relu_1e12_elements_ms": best_ms(lambda: model(relu(10**12 // 128 * 128), target), 20),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    results = measure()
    if parser.parse_args().json:
        print(json.dumps(results, indent=1))
        return
    for name, value in results.items():
        print(f"{name:32}{value:12.3g}")


if __name__ == "__main__":
    main()
