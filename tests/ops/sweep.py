"""The whole operator database of PyTorch on the device, in shards that survive a crash.

`python tests/ops/sweep.py` runs everything and fails below the two thresholds; `--only add,mul` chooses entries.
A shard is a process of its own. An entry that ends its process is a failure like any other: the rest of its shard goes
on in a new process.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

FORWARD_SHARE = 0.98
BACKWARD_SHARE = 0.95
SHARD_TIMEOUT_S = 1500


def worker(names: Sequence[str], out: Path, limit: int) -> None:
    """Checks entries one by one; a line is written before and after each."""
    import checks
    import torch

    torch.set_num_threads(1)
    wanted = set(names)
    with out.open("a") as lines:
        for op in checks.entries():
            name = checks.full_name(op)
            if name not in wanted:
                continue
            print(json.dumps({"started": name}), file=lines, flush=True)
            print(json.dumps(asdict(checks.check(op, limit))), file=lines, flush=True)


def run_shard(names: list[str], limit: int) -> list[dict[str, Any]]:
    """Outcomes of a shard; the entry at which a process ended counts as crashed, the next process goes on after it."""
    outcomes: list[dict[str, Any]] = []
    left = list(names)
    while left:
        with tempfile.TemporaryDirectory() as directory:
            out, chosen = Path(directory) / "out", Path(directory) / "names"
            chosen.write_text("\n".join(left))
            command = [sys.executable, __file__, "--worker", str(chosen), "--out", str(out), "--samples", str(limit)]
            try:
                ended = subprocess.run(command, timeout=SHARD_TIMEOUT_S, check=False, stderr=subprocess.PIPE, text=True)
                how, tail = f"process ended with {ended.returncode}", ended.stderr.strip().splitlines()[-1:]
            except subprocess.TimeoutExpired:
                how, tail = f"no end after {SHARD_TIMEOUT_S} s", []
            records = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        done = [record for record in records if "name" in record]
        outcomes += done
        finished = {record["name"] for record in done}
        started = [record["started"] for record in records if "started" in record]
        crashed = [name for name in started if name not in finished]
        for name in crashed or (left[:1] if not done else []):
            outcomes.append(
                {"name": name, "forward": "fail", "backward": "none", "samples": 0, "reason": " ".join([how, *tail])}
            )
            finished.add(name)
        left = [name for name in left if name not in finished]
        if not crashed and left:
            left = []
    return outcomes


def summary(outcomes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Shares of entries that pass, and every failure with its reason."""
    ran = [o for o in outcomes if o["forward"] != "none"]
    differentiable = [o for o in outcomes if o["backward"] != "none"]
    forward = sum(o["forward"] == "pass" for o in ran)
    backward = sum(o["backward"] == "pass" for o in differentiable)
    return {
        "entries": len(outcomes),
        "ran": len(ran),
        "forward_pass": forward,
        "forward_share": forward / max(1, len(ran)),
        "differentiable": len(differentiable),
        "backward_pass": backward,
        "backward_share": backward / max(1, len(differentiable)),
        "samples": sum(o["samples"] for o in outcomes),
        "failures": [o for o in outcomes if "fail" in (o["forward"], o["backward"])],
        "nothing_to_run": [o for o in outcomes if o["forward"] == "none"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=4, help="samples per entry, at most")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--only", help="entries, separated by commas")
    parser.add_argument("--json", type=Path, help="write the result here")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker.read_text().split("\n"), options.out, options.samples)
        return 0
    import checks

    names = [checks.full_name(op) for op in checks.entries()]
    if options.only:
        chosen = options.only.split(",")
        names = [name for name in names if name in chosen or name.split(".")[0] in chosen]
    outcomes: list[dict[str, Any]] = []
    for shard in range(options.shards):
        outcomes += run_shard(names[shard :: options.shards], options.samples)
    result = summary(outcomes)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    for failure in result["failures"]:
        print(f"{failure['name']}: {failure['reason']}")
    print(
        f"forward {result['forward_pass']}/{result['ran']} ({result['forward_share']:.1%}), "
        f"backward {result['backward_pass']}/{result['differentiable']} ({result['backward_share']:.1%}), "
        f"{result['samples']} samples, {len(result['nothing_to_run'])} entries without a sample to run"
    )
    return int(result["forward_share"] < FORWARD_SHARE or result["backward_share"] < BACKWARD_SHARE)


if __name__ == "__main__":
    sys.exit(main())
