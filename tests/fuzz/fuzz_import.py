"""Mutated traces must never crash, hang or exceed the memory bound: `make fuzz`.

Takes small valid traces, mutates bytes (flips, cuts, copies, structural characters, invalid UTF-8) and imports the
result in this process. Anything but success or a TrnscopeError is a failure; the offending bytes are written to a
file. Not collected by pytest.
"""

import argparse
import gzip
import json
import random
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from trnscope import TrnscopeError
from trnscope.store.importer import import_traces
from trnscope.store.trace import Trace

SECONDS_EACH: Final = 20.0
MEMORY_BYTES: Final = 3 << 30
PIECES: Final = (b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\x00", b"\xff", b"\n", b"nan", b"-", b"1e999",
                 b'\\"', b"null", b"9" * 30, b"\\u12", b'{"ph":"X"}', b"\xed\xa0\x80")  # fmt: skip


def seeds() -> list[bytes]:
    """Valid inputs of every JSON format that is read."""
    events: list[dict[str, object]] = []
    for k in range(6):
        thread = {"pid": 1, "tid": 1, "ts": k * 10.125}
        args = {"External id": k, "correlation": k, "Input Dims": [[k, 2], []]}
        events += [
            {"ph": "X", "cat": "cpu_op", "name": f"aten::mm{k}", **thread, "dur": 8, "args": args},
            {"ph": "X", "cat": "kernel", "name": "gemm<4>(int)", "pid": 0, "tid": 7, "ts": k, "dur": 3.5, "args": args},
            {"ph": "s", "id": k, "cat": "ac2g", "name": "ac2g", **thread},
            {"ph": "B", "name": "b", "pid": 1, "tid": 2, "ts": k * 10},
            {"ph": "E", "pid": 1, "tid": 2, "ts": k * 10 + 3},
            {"ph": "C", "name": "mem", "pid": 1, "ts": k, "args": {"used": k}},
            {"ph": "b", "cat": "n", "id": k, "name": "r", **thread},
            {"ph": "i", "name": "m", "ts": k, "s": "g"},
        ]
    meta = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}}
    trace = {"schemaVersion": 1, "traceEvents": [meta, *events], "traceName": "C:/x", "baseTimeNanoseconds": 17}
    instruction = {"timestamp": 3, "duration": 2, "subgroup": "Tensor", "opcode": "MATMUL"}
    profile = {
        "instruction": [{**instruction, "pc": k} for k in range(5)],
        "summary": [{"total_time": 1e-6}],
        "dma": [{"timestamp": 1, "duration": 2, "subgroup": "q", "aggregated": "no", "transfer_size": 4}],
    }
    mapping = {"version": 1, "data": [{"nrta_seq_id": 3, "framework_op_exec_ids": [{"seq_nr": 1, "th_id": 2}]}]}
    texts = [
        json.dumps(trace),
        json.dumps(trace, indent=1),
        json.dumps(events),
        json.dumps(profile),
        json.dumps(mapping),
    ]
    plain = [text.encode() for text in texts]
    return [*plain, gzip.compress(plain[0])]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to eight mutations."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(6):
            case 0 if out:
                out[at % len(out)] ^= 1 << rng.randrange(8)
            case 1:
                out[at:at] = rng.choice(PIECES)
            case 2:
                del out[at : at + rng.choice((1, 1, 2, 7, 60))]
            case 3:
                start = rng.randrange(len(out) + 1)
                out[at:at] = out[start : start + rng.randrange(80)]
            case 4 if rng.random() < 0.3:
                del out[at:]
            case _:
                out[at : at + 1] = rng.choice(PIECES)
    return bytes(out)


def main() -> int:
    """Run; the exit code tells whether anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    rng = random.Random(options.seed)
    corpus = seeds()
    outcomes = {"imported": 0, "refused": 0}
    with tempfile.TemporaryDirectory() as scratch:
        path, store = Path(scratch) / "trace", Path(scratch) / "store"
        for run in range(options.runs):
            data = mutate(rng.choice(corpus), rng)
            path.write_bytes(data)
            began = time.monotonic()
            try:
                with Trace(import_traces([path], store).directory) as trace:
                    trace.sql("SELECT count(*), sum(length(name)) FROM Slice").fetchall()
                outcomes["imported"] += 1
            except TrnscopeError:
                outcomes["refused"] += 1
            except BaseException as error:
                kept = Path.cwd() / f"fuzz-{options.seed}-{run}.bin"
                kept.write_bytes(data)
                print(f"run {run}: {type(error).__name__}: {error}\n  input kept in {kept}", file=sys.stderr)
                raise
            finally:
                shutil.rmtree(store, ignore_errors=True)
            if time.monotonic() - began > SECONDS_EACH:
                kept = Path.cwd() / f"fuzz-{options.seed}-{run}.bin"
                kept.write_bytes(data)
                print(f"run {run} took more than {SECONDS_EACH} s; input kept in {kept}", file=sys.stderr)
                return 1
    print(f"{options.runs} mutations: {outcomes['imported']} imported, {outcomes['refused']} refused, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
