"""RMSNorm three ways on one NeuronCore: six eager ops, one fused op, one compiled graph.

Profiles each version and prints where its device time goes, then compares them. The script uses the names of the
real backend only, so it also runs where `torch_neuronx` and a Trainium chip are installed:

    python examples/rmsnorm.py
    python examples/rmsnorm.py --rows 8192 --hidden 8192 --dtype bfloat16 --out /tmp/rmsnorm
"""

import argparse
import json
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch_neuronx.profiling import NeuronConfig, NeuronProfiler, ProfileMode

SIMULATED = NeuronConfig.__module__.startswith("trnscope")
"""Whether trnscope stands in for the real backend."""
EPSILON = 1e-6
WARM_UP = 3
PUBLISHED_US = {"six ops": 2355, "torch.rms_norm": 403, "torch.compile": 375}
"""Device time of the three versions in a published walk-through. Its shape, data type and instance are not given."""
PUBLISHED_EXECUTIONS = {"six ops": 6, "torch.rms_norm": 1, "torch.compile": 1}


def six_ops(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The formula as one writes it: every operator is a program of its own on the device."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPSILON) * weight


def fused_op(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """PyTorch's own RMSNorm: one operator, one program."""
    return torch.rms_norm(x, weight.shape, weight, EPSILON)


VERSIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "six ops": six_ops,
    "torch.rms_norm": fused_op,
    "torch.compile": torch.compile(six_ops, backend="neuron", fullgraph=True, dynamic=False),
}


@dataclass
class Measured:
    """What one profile says. Times are microseconds."""

    version: str
    executions: int
    device_us: float
    host_us: float
    published_us: int
    table: str


def measure(name: str, x: torch.Tensor, weight: torch.Tensor, out: str) -> Measured:
    """Run one version until it is warm, profile one run, and check its result against the CPU."""
    version = VERSIONS[name]
    for _ in range(WARM_UP):  # compilation and first loads belong to no measurement
        version(x, weight)
    torch.neuron.synchronize()

    config = NeuronConfig(
        modes=[ProfileMode.DEVICE, ProfileMode.RUNTIME], profile_output_dir=out, correlate_device_time=True
    )
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
        experimental_config=config,
        on_trace_ready=NeuronProfiler(config).export_trace,
    ) as prof:
        result = version(x, weight)
        torch.neuron.synchronize()  # launches are asynchronous: wait inside, or the profile ends before the device

    torch.testing.assert_close(result.cpu(), six_ops(x.cpu(), weight.cpu()))
    averages = prof.key_averages()
    on_device = [event for event in prof.events() if event.device_type == DeviceType.PrivateUse1]
    return Measured(
        version=name,
        executions=len(on_device),
        device_us=round(sum(event.time_range.elapsed_us() for event in on_device), 3),
        host_us=round(averages.self_cpu_time_total, 3),
        published_us=PUBLISHED_US[name],
        table=averages.table(sort_by="self_device_time_total", row_limit=12, max_name_column_width=32),
    )


def comparison(results: list[Measured], per_execution_us: float) -> str:
    """The three versions side by side, in text."""
    device = "device time, us" if not per_execution_us else f"device time + {per_execution_us:g} per execution, us"
    rows = [("version", "executions", device, "host time, us", "published, us")]
    for result in results:
        device_us = result.device_us + per_execution_us * result.executions
        numbers = (str(result.executions), f"{device_us:,.1f}", f"{result.host_us:,.1f}", f"{result.published_us:,}")
        rows.append((result.version, *numbers))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def caveats() -> list[str]:
    """What one must know before comparing the columns."""
    each = ", ".join(f"{us / PUBLISHED_EXECUTIONS[version]:.0f}" for version, us in PUBLISHED_US.items())
    notes = [
        "Published: the walk-through they come from does not tell its shape, data type or instance, so they cannot be "
        f"compared with the times beside them. They come to {each} us per execution, almost the same whether an "
        "execution computes one multiplication or the whole norm. Neither HBM bandwidth nor the floor of about 15 us "
        "per execution measured elsewhere explains such a cost. What carries over is the count: six against one.",
    ]
    if SIMULATED:
        notes.insert(0, "Device times are modelled for one logical NeuronCore; no chip was measured.")
    return notes


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096, help="rows of the input (default %(default)s)")
    parser.add_argument("--hidden", type=int, default=2048, help="size of a row (default %(default)s)")
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], default="float32")
    parser.add_argument("--out", default="./output", help="directory of the captures (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the tables")
    parser.add_argument(
        "--per-execution-us",
        type=float,
        default=0.0,
        metavar="US",
        help="add an assumed cost to every execution in the comparison, to see what one of 370 us as the published "
        "figures suggest would do; it is no part of any model (default: none)",
    )
    given = parser.parse_args()
    if given.rows < 1 or given.hidden < 1:
        parser.error(f"--rows and --hidden are at least 1, given {given.rows} and {given.hidden}")
    if given.per_execution_us < 0:
        parser.error(f"--per-execution-us is at least 0, given {given.per_execution_us}")
    return given


def main() -> None:
    """Measure the three versions and print what was found."""
    given = arguments()
    torch.manual_seed(0)
    dtype = getattr(torch, given.dtype)
    x = torch.randn(given.rows, given.hidden, dtype=dtype).to("neuron")
    weight = torch.randn(given.hidden, dtype=dtype).to("neuron")

    results = [measure(name, x, weight, given.out) for name in VERSIONS]

    if given.json:
        shape = {"rows": given.rows, "hidden": given.hidden, "dtype": given.dtype}
        answer = {**shape, "per_execution_us": given.per_execution_us, "versions": [asdict(r) for r in results]}
        print(json.dumps({**common_fields(caveats()), **answer}, indent=2))
        return
    for result in results:
        print(f"== {result.version}: {given.rows} x {given.hidden}, {given.dtype}")
        print(result.table)
    print(comparison(results, given.per_execution_us))
    print()
    for note in caveats():
        print(textwrap.fill(f"* {note}", 100, subsequent_indent="  "))
    print(f"\nCaptures (trace.json opens in Perfetto): {given.out}")


def common_fields(notes: list[str]) -> dict[str, object]:
    """The fields that every JSON answer of trnscope has; on a real device the caveats alone."""
    if not SIMULATED:
        return {"is_simulation": False, "caveats": notes}
    from trnscope import __version__
    from trnscope.schema import envelope

    return {**envelope(__version__, is_simulation=True, caveats=notes)}


if __name__ == "__main__":
    main()
