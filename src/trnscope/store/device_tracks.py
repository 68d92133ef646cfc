"""Device and system profile tables as tracks of the event model."""

from typing import Any, Final

import numpy as np

from trnscope.schema.events import COUNTER, SLICE, SLICE_ID_BITS, SLICE_KINDS
from trnscope.store.engine import identifier, path_literal
from trnscope.store.source import SourceContext, SourceFacts
from trnscope.store.table_files import dictionary, integers

_ENGINE_ORDER: Final = ("dma", "sync", "tensor", "vector", "scalar", "gpsimd")
_BATCH: Final = 1 << 16


def write_device_slices(connection: Any, context: SourceContext, facts: SourceFacts, rows: dict[str, int]) -> None:
    """Slices and counters of whatever timeline tables the profile has; sets the window of `facts`."""
    writer = _Writer(connection, context, facts, rows)
    writer.execution()
    writer.slices("Instruction", "engine", "opcode", "instruction", ("id", "pc", "operands", "hlo_name", "layer"))
    writer.slices("DmaPacketAggregated", "queue_name", "variable", "dma", ("id", "op", "transfer_bytes", "queue_type"))
    if "DmaPacketAggregated" not in rows or rows["DmaPacketAggregated"] < rows.get("DmaPacket", 0):
        writer.slices("DmaPacket", "queue_name", "queue_type", "dma", ("id", "transfer_bytes", "variable"))
    writer.slices("CcOp", "'collectives'", "operation", "other", ("algorithm", "num_elements", "dtype"))
    writer.slices(
        "SystemProfileEvents", "thread_id", "name", "runtime", ("id", "flow_id", "nc_idx", "trace_event_source")
    )
    writer.counter("PendingDma", "value")
    writer.counter("DmaThroughput", "transfer_rate")


class _Writer:
    def __init__(self, connection: Any, context: SourceContext, facts: SourceFacts, rows: dict[str, int]) -> None:
        self._connection = connection
        self._context = context
        self._facts = facts
        self._rows = rows
        self._next_id = context.source_id << SLICE_ID_BITS

    def _relation(self, table: str) -> str:
        files = sorted(self._context.tables.directory.glob(f"{table}.parquet"))
        return f"read_parquet([{', '.join(path_literal(path) for path in files)}])"

    def _columns(self, table: str) -> set[str]:
        if not self._rows.get(table):
            return set()
        described = self._connection.execute(f"DESCRIBE SELECT * FROM {self._relation(table)}").fetchall()
        return {row[0] for row in described}

    def execution(self) -> None:
        """The whole run as one device execution, where the summary gives its length."""
        if "total_time" not in self._columns("Summary") or "start_ts" not in self._columns("Instruction"):
            return
        names = self._columns("NeffHeader") & {"network_name"}
        (seconds,) = self._connection.execute(f"SELECT total_time FROM {self._relation('Summary')}").fetchone()
        (start,) = self._connection.execute(f"SELECT min(start_ts) FROM {self._relation('Instruction')}").fetchone()
        if seconds is None or start is None:
            return
        name = "execution"
        if names:
            (name,) = self._connection.execute(f"SELECT network_name FROM {self._relation('NeffHeader')}").fetchone()
        track = self._context.tracks.track("NeuronCore", "execution", "stream")
        duration = round(float(seconds) * 1e9)
        self._context.tables[SLICE].write_rows(
            [
                {
                    "slice_id": self._next_id,
                    "source_id": self._context.source_id,
                    "track_id": track.track_id,
                    "name": name,
                    "kind": "kernel",
                    "start_ns": start,
                    "duration_ns": duration,
                    "repairs": 0,
                }
            ]
        )
        self._next_id += 1
        self._facts.linking = {"device_slices": 1, "with_launch": 0, "with_op": 0, "autograd": 0}
        self._widen(start, start + duration)

    def slices(self, table: str, track: str, name: str, kind: str, details: tuple[str, ...]) -> None:
        """One slice per row; rows of one `track` value share a track."""
        columns = self._columns(table)
        if not {"start_ts", "duration_ns"} <= columns or (track[0] != "'" and track not in columns):
            return
        shown = [column for column in details if column in columns]
        packed = ", ".join(f"{identifier(column)} := {identifier(column)}" for column in shown)
        label = identifier(name) if name in columns else "''"
        group = track if track[0] == "'" else identifier(track)
        core = identifier("pcore_idx") if "pcore_idx" in columns else "NULL"
        query = (
            f"SELECT {group}::VARCHAR, {core}::VARCHAR, {label}::VARCHAR, start_ts::BIGINT, "
            f"coalesce(duration_ns, 0)::BIGINT, to_json(struct_pack({packed}))::VARCHAR "
            f"FROM {self._relation(table)} WHERE start_ts IS NOT NULL ORDER BY start_ts, 1"
        )
        for batch in self._connection.sql(query).to_arrow_reader(_BATCH):
            self._slice_batch(batch, table, kind)

    def _slice_batch(self, batch: Any, table: str, kind: str) -> None:
        size = batch.num_rows
        if not size:
            return
        kinds = {"Instruction": "engine", "DmaPacket": "queue", "DmaPacketAggregated": "queue"}
        process = "NeuronCore" if table in kinds else "system" if table == "SystemProfileEvents" else "collectives"
        tracks = np.empty(size, np.int64)
        for i, (label, core) in enumerate(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)):
            # transfers and their packets overlap by nature and get tracks of their own
            suffix = " packets" if table == "DmaPacket" else ""
            pid = process if core is None else f"{process} {core}"
            track = self._context.tracks.track(pid, f"{label or ''}{suffix}", kinds.get(table, "thread"))
            if track.sort_index is None and label in _ENGINE_ORDER:
                track.sort_index = _ENGINE_ORDER.index(label)
            tracks[i] = track.track_id
        start = np.asarray(batch.column(3))
        duration = np.maximum(np.asarray(batch.column(4)), 0)
        negative = int((np.asarray(batch.column(4)) < 0).sum())
        if negative:
            self._context.quality.add("negative-duration", table, negative)
        names = batch.column(2).fill_null("").dictionary_encode()
        self._context.tables[SLICE].write(
            {
                "slice_id": integers(self._next_id + np.arange(size, dtype=np.int64)),
                "source_id": integers(np.full(size, self._context.source_id, np.int64)),
                "track_id": integers(tracks),
                "name": names,
                "kind": dictionary(np.full(size, SLICE_KINDS.index(kind), np.int64), SLICE_KINDS),
                "start_ns": integers(start),
                "duration_ns": integers(duration),
                "repairs": integers(np.zeros(size, np.int64)),
                "args": batch.column(5),
            }
        )
        self._next_id += size
        self._widen(int(start.min()), int((start + duration).max()))

    def counter(self, table: str, value: str) -> None:
        """A counter of a table with timestamps."""
        if not {"timestamp", value} <= self._columns(table):
            return
        track = self._context.tracks.track("NeuronCore", table, "counter")
        track.name = table
        query = (
            f"SELECT timestamp::BIGINT, {identifier(value)}::DOUBLE FROM {self._relation(table)} "
            "WHERE timestamp IS NOT NULL ORDER BY 1"
        )
        for batch in self._connection.sql(query).to_arrow_reader(_BATCH):
            rows = [
                {
                    "event_id": self._next_id + i,
                    "source_id": self._context.source_id,
                    "track_id": track.track_id,
                    "name": table,
                    "series": value,
                    "timestamp_ns": at,
                    "value": amount,
                }
                for i, (at, amount) in enumerate(
                    zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
                )
            ]
            self._context.tables[COUNTER].write_rows(rows)
            self._next_id += len(rows)

    def _widen(self, start: int, end: int) -> None:
        facts = self._facts
        facts.start_ns = start if facts.start_ns is None else min(start, facts.start_ns)
        facts.end_ns = end if facts.end_ns is None else max(end, facts.end_ns)
