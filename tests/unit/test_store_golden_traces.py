"""Facts about real traces, counted by a plain walk over the parsed JSON, equal what the import says.

The files are not part of the project: without them these tests skip.
"""

import gzip
import json
import os
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from trnscope.store.importer import import_traces
from trnscope.store.trace import Trace

DATA = Path(os.environ.get("TRNSCOPE_TEST_DATA", Path(__file__).parents[3] / "shared" / "data")) / "torch_traces"
FILES = sorted(DATA.glob("*.json.gz"))

pytestmark = pytest.mark.skipif(not FILES, reason=f"no traces in {DATA}")

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "mtia_ccp_events"}
RUNTIME = {"cuda_runtime", "cuda_driver", "runtime", "mtia_runtime"}
OPS = {"cpu_op", "operator"}


def _nanoseconds(value: Any) -> int:
    if isinstance(value, int):
        return value * 1000
    return int((Decimal(value) * 1000).to_integral_value())


def _facts(path: Path) -> dict[str, Any]:
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=str)
    events = document["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    device = [event for event in slices if event.get("cat", "").lower() in DEVICE]
    launches = {
        event["args"]["correlation"]
        for event in slices
        if event.get("cat", "").lower() in RUNTIME and event.get("args", {}).get("correlation", 0) > 0
    }
    per_kernel: Counter[str] = Counter()
    for event in device:
        per_kernel[event["name"]] += _nanoseconds(event.get("dur", 0))
    return {
        "events": len(events),
        "phases": Counter(event["ph"] for event in events),
        "device_executions": len(device),
        "device_time_ns": sum(per_kernel.values()),
        "per_kernel": per_kernel,
        "launched": sum(event.get("args", {}).get("correlation") in launches for event in device),
        "linked": _linked(slices, device),
        "rank": document.get("distributedInfo", {}).get("rank"),
        "base": document.get("baseTimeNanoseconds"),
        "start_ns": min(_nanoseconds(event["ts"]) for event in events if event["ph"] in "Xi"),
    }


def _linked(slices: list[dict[str, Any]], device: list[dict[str, Any]]) -> int:
    """Device slices whose launch lies inside an op of its thread, or whose external id an op has."""
    ops: dict[Any, list[tuple[int, int]]] = {}
    external = set()
    for event in slices:
        if event.get("cat", "").lower() in OPS:
            start = _nanoseconds(event["ts"])
            ops.setdefault((str(event["pid"]), str(event["tid"])), []).append(
                (start, start + _nanoseconds(event["dur"]))
            )
            args = event.get("args", {})
            external.add(args.get("External id", args.get("external id")))
    launch: dict[int, dict[str, Any]] = {}
    for event in slices:
        if event.get("cat", "").lower() in RUNTIME and event.get("args", {}).get("correlation", 0) > 0:
            launch.setdefault(event["args"]["correlation"], event)
    external -= {None, 0}
    # per thread: prefix maxima of op ends, to ask "does any op cover [a, b]" by bisection over starts
    import bisect

    index = {}
    for key, spans in ops.items():
        spans.sort()
        ends, high = [], -(2**63)
        for _, end in spans:
            high = max(high, end)
            ends.append(high)
        index[key] = ([start for start, _ in spans], ends)
    count = 0
    for event in device:
        args = event.get("args", {})
        found = launch.get(args.get("correlation"))
        enclosed = False
        ids = {args.get("External id", args.get("external id"))}
        if found is not None:
            starts, ends = index.get((str(found["pid"]), str(found["tid"])), ([], []))
            start = _nanoseconds(found["ts"])
            position = bisect.bisect_right(starts, start) - 1
            enclosed = position >= 0 and ends[position] >= start + _nanoseconds(found["dur"])
            found_args = found["args"]
            ids.add(found_args.get("External id", found_args.get("external id")))
        count += enclosed or bool(ids & external)
    return count


_SLOW_BYTES = 100_000


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name[:48], marks=[pytest.mark.slow] if path.stat().st_size > _SLOW_BYTES else [])
        for path in FILES
    ],
)
def test_import_equals_a_plain_walk(path: Path, tmp_path: Path) -> None:
    expected = _facts(path)
    result = import_traces([path], tmp_path / "store")
    with Trace(result.directory) as trace:
        (entry,) = trace.sources
        source = entry["source"]
        assert source["events"] == expected["events"]
        assert source["rank"] == expected["rank"] or source["rank_origin"] == "name"
        assert source["base_time_ns"] == expected["base"]
        assert source["start_ns"] == expected["start_ns"]
        phases = expected["phases"]
        assert trace.tables["Slice"].rows == phases["X"]
        assert trace.tables["Instant"].rows == phases["i"]
        assert trace.tables["FlowPoint"].rows == phases["s"] + phases["f"] + phases["t"]
        assert trace.tables["Nesting"].rows == phases["X"]
        assert trace.tables["RawEvent"].rows == 0
        kernels = dict(
            trace.sql(
                "SELECT name, sum(duration_ns)::BIGINT FROM Slice WHERE kind IN ('kernel', 'copy', 'memset') GROUP BY 1"
            ).fetchall()
        )
        assert kernels == dict(expected["per_kernel"])
        assert entry["linking"]["device_slices"] == expected["device_executions"]
        assert entry["linking"]["with_launch"] == expected["launched"]
        assert entry["linking"]["with_op"] == expected["linked"]
