"""Importing a chrome trace: reading, pairing, nesting, linking, and what the file says about its job."""

import re
from typing import Any, Final

from trnscope.schema.events import FLOW_POINT, INSTANT, SLICE
from trnscope.store.byte_source import open_bytes
from trnscope.store.chrome import ChromeReader
from trnscope.store.json_document import JsonDocument
from trnscope.store.linking import link
from trnscope.store.nesting import NestingPass
from trnscope.store.pairing import Pairing
from trnscope.store.source import SourceContext, SourceFacts

_VERSION_KEYS: Final = ("torch_version", "pytorch_version", "trace_id", "cuda_runtime_version", "hip_runtime_version",
                        "roctracer_version", "cupti_version", "record_shapes", "with_stack", "profile_memory",
                        "displayTimeUnit", "schemaVersion")  # fmt: skip
_RANK_NAME: Final = re.compile(r"(?:^|[^a-z])rank[-_]?(\d{1,6})(?!\d)", re.IGNORECASE)


def import_chrome(context: SourceContext) -> SourceFacts:
    """Read one chrome trace into the tables of its source."""
    reader = ChromeReader(context.source_id, context.tables, context.tracks, context.quality, context.progress)
    with open_bytes(context.path) as data:
        reader.read(JsonDocument(data, context.quality))
    Pairing(context.source_id, context.tables, context.tracks, context.quality).run()
    context.tables.close(SLICE, FLOW_POINT, INSTANT)
    NestingPass(context.source_id, context.tables, context.tracks, context.quality).run()
    linking = link(context.tables, context.quality)
    found = reader.facts
    metadata = found.metadata
    facts = SourceFacts(
        format="torch-trace" if found.torch else "chrome-trace",
        events=found.events,
        start_ns=found.start_ns,
        end_ns=found.end_ns,
        linking=linking,
    )
    distributed = metadata.get("distributedInfo")
    if isinstance(distributed, dict):
        facts.rank = _small(distributed.get("rank"))
        facts.world_size = _small(distributed.get("world_size"))
    base = metadata.get("baseTimeNanoseconds")
    if isinstance(base, int) and not isinstance(base, bool):
        facts.base_time_ns = base
    facts.device_name = _device(metadata)
    version = metadata.get("torch_version") or metadata.get("pytorch_version")
    facts.framework = f"torch {version}" if version else "torch" if found.torch else None
    facts.extra = {key: metadata[key] for key in _VERSION_KEYS if key in metadata}
    return facts


def rank_in_name(name: str) -> int | None:
    """The rank that a file name states, such as `rank-3` or `rank_3`."""
    match = _RANK_NAME.search(name)
    return int(match.group(1)) if match else None


def _small(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number < 2**31 else None


def _device(metadata: dict[str, Any]) -> str | None:
    properties = metadata.get("deviceProperties") or metadata.get("computeProperties")
    if isinstance(properties, list) and properties and isinstance(properties[0], dict):
        name = properties[0].get("name")
        return str(name) if name else None
    return None
