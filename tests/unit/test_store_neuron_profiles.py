"""Real device profiles: rows, window and recomputed summaries, counted independently by walking the JSON.

The files are not part of the project: without them these tests skip.
"""

import gzip
import json
import os
from pathlib import Path

import pytest

from trnscope.store.importer import import_traces
from trnscope.store.trace import Trace

DATA = Path(os.environ.get("TRNSCOPE_TEST_DATA", Path(__file__).parents[3] / "shared" / "data")) / "neuron_profile"
FILES = sorted(DATA.glob("*.json.gz"))

pytestmark = pytest.mark.skipif(not FILES, reason=f"no profiles in {DATA}")


@pytest.mark.slow
def test_every_profile_equals_a_plain_walk(tmp_path: Path) -> None:
    result = import_traces([DATA], tmp_path / "store")
    assert result.skipped == {}
    with Trace(result.directory) as trace:
        by_path = {entry["source"]["path"]: entry for entry in trace.sources}
        for path in FILES:
            document = json.loads(gzip.decompress(path.read_bytes()))
            entry = by_path[path.name]
            packets = [row for row in document["dma"] if row["aggregated"] == "no"]
            assert entry["source"]["format"] == "neuron-profile"
            assert entry["source"]["events"] == sum(len(rows) for rows in document.values())
            assert entry["rows"]["Instruction"] == len(document["instruction"])
            assert entry["rows"]["DmaPacket"] == len(packets)
            assert entry["rows"]["SemaphoreUpdate"] == len(document["semaphore_update"])
            source = entry["source"]["source_id"]
            times = trace.sql(
                f"SELECT kind, count(*), sum(duration_ns)::BIGINT FROM Slice WHERE source_id = {source} GROUP BY 1"
            ).fetchall()
            found = {kind: (count, total) for kind, count, total in times}
            rows = document["instruction"]
            assert found["instruction"] == (len(rows), sum(row["duration"] for row in rows))
            assert found["dma"] == (len(document["dma"]), sum(row["duration"] for row in document["dma"]))
            assert found["kernel"] == (1, round(document["summary"][0]["total_time"] * 1e9))


def test_summaries_are_recomputed_within_one_percent(tmp_path: Path) -> None:
    result = import_traces([FILES[0]], tmp_path / "store")
    with Trace(result.directory) as trace:
        (entry,) = trace.sources
        summary = entry["extra"]["summary"]
        assert summary["scale"] == "share"
        assert summary["different"] == {}
        assert summary["compared"] >= 30


def test_raw_device_traces_are_recognised_and_paired() -> None:
    from trnscope.store.neuron_binary import read_ntff_header

    for path in DATA.glob("*.ntff"):
        document = json.loads(gzip.decompress(path.with_suffix(".json.gz").read_bytes()))
        header = read_ntff_header(path.read_bytes()[:4096])
        assert header.version == document["metadata"][0]["ntff_version"]
        assert header.program_uuid == document["neff_header"][0]["uuid"]
        assert header.program_path == document["neff_header"][0]["network_name"]
