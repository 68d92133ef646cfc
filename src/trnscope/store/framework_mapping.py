"""Reading `framework_mapping_*.json`: which autograd ops a runtime sequence number stands for.

Shape: `{"version": 1, "data": [{"nrta_seq_id": n, "framework_op_exec_ids": [{"seq_nr", "th_id", "stream_id"}]}]}`.
"""

from typing import Any, Final

from trnscope.schema.columns import Column, Table
from trnscope.schema.events import TRACE_METADATA
from trnscope.store.byte_source import open_bytes
from trnscope.store.json_document import JsonDocument, metadata_value
from trnscope.store.source import SourceContext, SourceFacts

FRAMEWORK_MAPPING: Final = Table(
    "FrameworkMapping",
    "Runtime launches and the framework ops in them; a fused launch has several rows.",
    (
        Column("nrt_sequence_id", "int64", "sequence number of the runtime"),
        Column("sequence_number", "int64", "autograd sequence number", required=False),
        Column("thread_id", "int64", "thread of the op", required=False),
        Column("stream_id", "int64", "internal stream", required=False),
    ),
)


def import_framework_mapping(context: SourceContext) -> SourceFacts:
    """Read one mapping file."""
    facts = SourceFacts("framework-mapping", framework="torch-neuronx")
    with open_bytes(context.path) as data:
        document = JsonDocument(data, context.quality)
        document.open()
        while (key := document.next_key()) is not None:
            if key == "data" and document.peek() == ord("["):
                document.position += 1
                facts.events += _entries(document, context)
                continue
            text, value = metadata_value(document.capture(), context.quality, key)
            context.tables[TRACE_METADATA].write_rows([{"source_id": context.source_id, "key": key, "value": text}])
            if key == "version":
                facts.extra["version"] = value
    return facts


def _entries(document: JsonDocument, context: SourceContext) -> int:
    count = 0
    while (byte := document.peek()) not in (-1, ord("]")):
        if byte == ord(","):
            document.position += 1
            continue
        offset = document.offset
        raw = document.capture()
        if not raw:
            document.position += 1
            continue
        _text, value = metadata_value(raw, context.quality, f"byte {offset}")
        sequence = _integer(value.get("nrta_seq_id")) if isinstance(value, dict) else None
        if not isinstance(value, dict) or sequence is None:
            context.quality.add("unreadable-event", f"byte {offset}: {raw[:80]!r}")
            continue
        ops = value.get("framework_op_exec_ids")
        context.tables[FRAMEWORK_MAPPING].write_rows(
            [
                {
                    "nrt_sequence_id": sequence,
                    "sequence_number": _integer(op.get("seq_nr")),
                    "thread_id": _integer(op.get("th_id")),
                    "stream_id": _integer(op.get("stream_id")),
                }
                for op in (ops if isinstance(ops, list) else [])
                if isinstance(op, dict)
            ]
        )
        count += 1
    if byte == ord("]"):
        document.position += 1
    return count


def _integer(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(2**63) <= value < 2**63 else None
