"""Reading device and system profiles that neuron-profile or Neuron Explorer wrote to JSON.

Every top-level array becomes a table. Those that the published Neuron Explorer schema has get its name and, where the
older JSON spells a column differently, its column names; all other columns and tables are kept as they are. Engines,
DMA queues and runtime threads also become tracks of the event model, so that the same timeline, lanes and exports
serve them.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trnscope.schema.events import SLICE, TRACE_METADATA
from trnscope.store.byte_source import open_bytes
from trnscope.store.device_tracks import write_device_slices
from trnscope.store.engine import TABLE_MEMORY, connect, identifier, path_literal
from trnscope.store.explorer_parquet import free_name
from trnscope.store.json_document import JsonDocument, metadata_value
from trnscope.store.json_tables import table_of_array
from trnscope.store.nesting import NestingPass
from trnscope.store.neuron_summary import check_summary
from trnscope.store.source import SourceContext, SourceFacts


@dataclass(frozen=True, slots=True)
class _Shape:
    """How one JSON array becomes a table: its name, new column names, and SQL for computed columns."""

    table: str
    renamed: dict[str, str] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    """Column -> SQL over the array's columns; used when every column it needs (in braces) is there."""


_SPAN: Final = {"end_ts": "{timestamp} + {duration}"}

_SHAPES: Final = {
    "instruction": _Shape(
        "Instruction",
        {"timestamp": "start_ts", "duration": "duration_ns", "evt_wait_time": "evt_wait_time_ns",
         "label": "timeline_track", "instruction_type": "tensor_instruction_type",
         "activation_fn": "scalar_activation_fn", "elements": "tensor_elements"},
        {**_SPAN, "engine": "lower({subgroup})", "raw_flops": "2 * {elements}"},
    ),
    "semaphore_update": _Shape("SemaphoreUpdate"),
    "active_time": _Shape("ActiveTime"),
    "ham": _Shape("Throttle"),
    "pending_dma": _Shape("PendingDma"),
    "warnings": _Shape("Warning"),
    "nc_mem_usage": _Shape("HbmUsage"),
    "neff_node": _Shape("TensorInfo"),
    "dma_queues_info": _Shape("DmaQueuesInfo"),
    "summary": _Shape("Summary"),
    "metadata": _Shape(
        "Metadata",
        {"pe_num_rows": "tensor_engine_num_rows", "pe_num_cols": "tensor_engine_num_cols",
         "pe_clock_freq": "tensor_engine_clock_freq", "pe_clock_others": "neuroncore_clock_freq"},
    ),
    "neff_header": _Shape("NeffHeader"),
    "cc_ops": _Shape("CcOp", {"timestamp": "start_ts", "duration": "duration_ns"}, _SPAN),
    "trace_events": _Shape(
        "SystemProfileEvents",
        {"timestamp": "start_ts", "duration": "duration_ns", "lnc_idx": "nc_idx"},
        {**_SPAN, "trace_event_source": "'neuron_rt'"},
    ),
    "mem_usage": _Shape("SystemProfileHbmUsage"),
    "cpu_util": _Shape("CpuUsage"),
}  # fmt: skip

_DMA: Final = _Shape(
    "DmaPacket",
    {"timestamp": "start_ts", "duration": "duration_ns", "read_size": "read_bytes", "write_size": "write_bytes",
     "transfer_size": "transfer_bytes", "transfer_rate": "throughput", "subgroup": "queue_name"},
    {**_SPAN, "engine_idx": "TRY_CAST({dma_engine} AS BIGINT)", "queue_idx": "TRY_CAST({dma_queue} AS BIGINT)"},
)  # fmt: skip

_NEEDS: Final = re.compile(r"\{(\w+)\}")


def import_neuron_profile(context: SourceContext) -> SourceFacts:
    """Read one profile, device or system."""
    spill = context.tables.directory / "spill"
    spill.mkdir(exist_ok=True)
    rows: dict[str, int] = {}
    facts = SourceFacts("neuron-profile")
    with connect(TABLE_MEMORY, spill=spill) as connection, open_bytes(context.path) as data:
        document = JsonDocument(data, context.quality)
        document.open()
        while (key := document.next_key()) is not None:
            if key in ("trace_events", "mem_usage", "cpu_util"):
                facts.format = "neuron-system"
            where = f"byte {document.offset}, {key}"
            if document.peek() != ord("["):
                text, _value = metadata_value(document.capture(), context.quality, where)
                context.tables[TRACE_METADATA].write_rows([{"source_id": context.source_id, "key": key, "value": text}])
                continue
            spooled = spill / f"{len(rows)}.json"
            with spooled.open("wb") as out:
                document.spool(out)
            _table(connection, context, key, spooled, rows, where)
            spooled.unlink()
            context.progress(document.offset)
        facts.events = sum(rows.values())
        for name, count in rows.items():
            context.tables.add_external(name, count)
        _describe(connection, context, facts, rows)
        write_device_slices(connection, context, facts, rows)
        if "Summary" in rows:
            facts.extra["summary"] = check_summary(connection, context.tables.directory, context.quality)
    context.tables.close(SLICE)
    NestingPass(context.source_id, context.tables, context.tracks, context.quality).run()
    return facts


def _table(connection: Any, context: SourceContext, key: str, spooled: Path, rows: dict[str, int], where: str) -> None:
    shapes = [(_SHAPES.get(key) or _Shape(_camel(key)), "true")]
    if key == "dma":
        # one array holds packets and the transfers that they make up
        aggregated = _Shape("DmaPacketAggregated", _DMA.renamed, _DMA.computed)
        shapes = [(_DMA, "aggregated IS DISTINCT FROM 'yes'"), (aggregated, "aggregated = 'yes'")]
    probe = context.tables.directory / "spill" / "probe.parquet"
    count, columns = table_of_array(connection, spooled, key, "*", probe, context.quality, where)
    if not count:
        return
    separable = "aggregated" in columns
    for shape, condition in shapes if separable else shapes[:1]:
        table = free_name(shape.table)
        path = context.tables.directory / f"{table}.parquet"
        where_clause = condition if separable else "true"
        (written,) = connection.execute(
            f"COPY (SELECT {_select(shape, columns)} FROM read_parquet({path_literal(probe)}) WHERE {where_clause}) "
            f"TO {path_literal(path)} (FORMAT parquet, COMPRESSION zstd)"
        ).fetchone()
        if written:
            rows[table] = rows.get(table, 0) + int(written)
        else:
            path.unlink()


def _select(shape: _Shape, columns: list[str]) -> str:
    present = set(columns)
    items = [f"{identifier(c)} AS {identifier(shape.renamed.get(c, c))}" for c in columns]
    for name, sql in shape.computed.items():
        if name not in present and set(_NEEDS.findall(sql)) <= present:
            items.append(f"{_NEEDS.sub(lambda match: identifier(match.group(1)), sql)} AS {identifier(name)}")
    return ", ".join(items)


def _camel(key: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"\W+|_", key) if part) or "Unnamed"


_DESCRIBED: Final = {
    "Metadata": ("ntff_version", "data_version", "profile_schema_version", "num_physical_cores", "is_simulation"),
    "Summary": ("instance_type", "profiler_version", "compiler_version", "runtime_version", "driver_version"),
    "NeffHeader": ("hash", "uuid", "network_name"),
    "ProfileInfo": ("ntff_filename", "profile_type", "profiler_version"),
}
"""Table -> columns that `info` shows."""


def _describe(connection: Any, context: SourceContext, facts: SourceFacts, rows: dict[str, int]) -> None:
    for table, wanted in _DESCRIBED.items():
        if table not in rows:
            continue
        path = context.tables.directory / f"{table}.parquet"
        cursor = connection.execute(f"SELECT * FROM read_parquet({path_literal(path)}) LIMIT 1")
        names = [column[0] for column in cursor.description]
        record = dict(zip(names, cursor.fetchone(), strict=True))
        for column in wanted:
            if record.get(column) is not None:
                facts.extra.setdefault(column, record[column])
    facts.device_name = facts.extra.get("instance_type")
    version = facts.extra.get("profiler_version")
    facts.framework = f"neuron-profile {version}" if version else "neuron-profile"
