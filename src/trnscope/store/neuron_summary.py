"""Recomputing a device profile's summary from its rows, to tell which of its figures can be trusted and their scale.

Formulas as the published metric descriptions give them: engine activity is the union of busy intervals without
semaphore waits, DMA activity the union of packets, hardware FLOPs are two per element of the matrix multiplications,
HFU and MFU divide by 2 x rows x columns x clock x time, MBU divides bytes by HBM bandwidth x time.
"""

from pathlib import Path
from typing import Any, Final

import duckdb

from trnscope.schema.vocabulary import ENGINES
from trnscope.store.engine import path_literal
from trnscope.store.quality import Quality

TOLERANCE: Final = 0.01
"""Largest relative difference that counts as equal."""

ROUNDING_NS: Final = 1.0
"""Rows carry whole nanoseconds, the summary does not: each interval may differ by this much."""

_PERCENT: Final = ("mbu_estimated_percent", "hfu_estimated_percent", "mfu_inst_estimated_percent")


def recompute(connection: Any, directory: Path) -> dict[str, tuple[float, float]]:
    """Metric -> (value from the rows, what rounding of the rows can account for). Times in seconds, shares 0..1."""
    found: dict[str, tuple[float, float]] = {}

    def query(table: str, sql: str) -> list[tuple[Any, ...]]:
        path = directory / f"{table}.parquet"
        if not path.exists():
            return []
        try:
            rows: list[tuple[Any, ...]] = connection.execute(
                sql.format(rows=f"read_parquet({path_literal(path)})")
            ).fetchall()
        except duckdb.Error:  # a column that this profile does not have
            return []
        return rows

    for engine, busy_ns, intervals in query(
        "ActiveTime", "SELECT lower(engine), sum(end_ts - start_ts), count(*) FROM {rows} GROUP BY 1"
    ):
        found[f"{engine}_engine_active_time"] = (busy_ns * 1e-9, intervals**0.5 * ROUNDING_NS * 1e-9)
    for engine, count in query("Instruction", "SELECT lower(engine), count(*) FROM {rows} GROUP BY 1"):
        found[f"{engine}_engine_instruction_count"] = (count, 0.0)
    for name in ("hbm_read_bytes", "hbm_write_bytes", "sbuf_read_bytes", "sbuf_write_bytes", "psum_read_bytes",
                 "psum_write_bytes", "spill_save_bytes", "spill_reload_bytes", "weight_queue_bytes"):  # fmt: skip
        for (total,) in query("Instruction", f"SELECT sum({name}) FROM {{rows}}"):
            found[name] = (total or 0, 0.0)
    for flops, transposes in query(
        "Instruction",
        "SELECT sum(raw_flops), coalesce(sum(raw_flops) FILTER (tensor_instruction_type = 'TRANSPOSE'), 0) FROM {rows} "
        "WHERE opcode = 'MATMUL'",
    ):
        if flops is not None:
            found["hardware_flops"] = (flops, 0.0)
            found["transpose_flops"] = (transposes, 0.0)
    _dma(query, found)
    _utilisation(query, found)
    return {
        name: value for name, value in found.items() if name.split("_engine_")[0] in ENGINES or "_engine_" not in name
    }


_UNION: Final = """
WITH packet AS (
    SELECT start_ts AS s, start_ts + duration_ns AS e FROM {rows} WHERE duplicate IS DISTINCT FROM 'yes' AND QUEUE
), reach AS (
    SELECT s, e, max(e) OVER (ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM packet
)
SELECT sum(greatest(0, e - greatest(s, coalesce(before, s)))), count(*) FROM reach
"""

_STATIC: Final = "queue_type NOT IN ('software_dynamic', 'hardware_dynamic')"


def _dma(query: Any, found: dict[str, tuple[float, float]]) -> None:
    for prefix, condition in (
        ("", "true"),
        ("static_", _STATIC),
        ("software_dynamic_", "queue_type = 'software_dynamic'"),
        ("hardware_dynamic_", "queue_type = 'hardware_dynamic'"),
    ):
        for busy, count in query("DmaPacket", _UNION.replace("QUEUE", condition)):
            found[f"{prefix}dma_active_time"] = ((busy or 0) * 1e-9, count**0.5 * ROUNDING_NS * 1e-9)
        for count, size, time_ns in query(
            "DmaPacket", f"SELECT count(*), sum(transfer_bytes), sum(duration_ns) FROM {{rows}} WHERE {condition}"
        ):
            if prefix:
                found[f"{prefix}dma_packet_count"] = (count, 0.0)
                found[f"{prefix}dma_size"] = (size or 0, 0.0)
            else:
                # durations are cut to whole nanoseconds
                found["dma_packet_time"] = ((time_ns or 0) * 1e-9, count * ROUNDING_NS * 1e-9)
    for count, size in query("DmaPacketAggregated", "SELECT count(*), sum(transfer_bytes) FROM {rows}"):
        found["dma_transfer_count"] = (count, 0.0)
        found["dma_transfer_total_bytes"] = (size or 0, 0.0)


def _utilisation(query: Any, found: dict[str, tuple[float, float]]) -> None:
    machine = query(
        "Metadata",
        "SELECT tensor_engine_num_rows, tensor_engine_num_cols, tensor_engine_clock_freq, hbm_ddr_bandwidth, "
        "num_physical_cores FROM {rows}",
    )
    time = query("Summary", "SELECT total_time FROM {rows}")
    if not machine or not time or not time[0][0]:
        return
    rows, columns, clock_ghz, bandwidth, cores = machine[0]
    seconds = time[0][0]
    peak = 2 * rows * columns * clock_ghz * 1e9 * max(cores or 1, 1)
    moved = found["hbm_read_bytes"][0] + found["hbm_write_bytes"][0]
    found["mbu_estimated_percent"] = (moved / seconds / bandwidth, 0.0)
    if "hardware_flops" in found:
        hardware, transposes = found["hardware_flops"][0], found["transpose_flops"][0]
        found["hfu_estimated_percent"] = (hardware / peak / seconds, 0.0)
        found["mfu_inst_estimated_percent"] = ((hardware - transposes) / peak / seconds, 0.0)
        if moved:
            found["mm_arithmetic_intensity"] = ((hardware - transposes) / moved, 0.0)


def check_summary(connection: Any, directory: Path, quality: Quality) -> dict[str, Any]:
    """Compare the stored summary with the rows.

    Returns `scale` (`share` or `percent`, of the stored percent fields; null when none can be compared), `compared`
    (number of metrics) and `different` (metric -> stored and recomputed value).
    """
    cursor = connection.execute(f"SELECT * FROM read_parquet({path_literal(directory / 'Summary.parquet')}) LIMIT 1")
    stored = dict(zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True))
    computed = recompute(connection, directory)
    scale = _scale(stored, computed)
    compared = 0
    different: dict[str, list[float]] = {}
    for name, (value, slack) in sorted(computed.items()):
        given = stored.get(name)
        if not isinstance(given, int | float):
            continue
        compared += 1
        expected = value * 100 if name in _PERCENT and scale == "percent" else value
        if abs(given - expected) > max(TOLERANCE * abs(given), slack):
            different[name] = [given, expected]
            quality.add("summary-mismatch", f"{name}: stored {given:g}, from rows {expected:g}")
    return {"scale": scale, "compared": compared, "different": different}


def _scale(stored: dict[str, Any], computed: dict[str, tuple[float, float]]) -> str | None:
    for name in _PERCENT:
        given, value = stored.get(name), computed.get(name, (0.0, 0.0))[0]
        if isinstance(given, int | float) and given > 0 and value > 0:
            ratio = given / value
            if 0.5 < ratio < 2:
                return "share"
            if 50 < ratio < 200:
                return "percent"
    return None
