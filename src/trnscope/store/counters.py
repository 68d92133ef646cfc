"""Counter events: several series per event, numbers in many spellings."""

import math
from typing import Any

from trnscope.schema.events import COUNTER
from trnscope.store.quality import Quality
from trnscope.store.table_files import TableSet
from trnscope.store.tracks import TrackRegistry


def write_counter(
    tables: TableSet, tracks: TrackRegistry, quality: Quality, event_id: int, timestamp_ns: int, event: dict[str, Any]
) -> None:
    """One row per series of a chrome counter event. Values that are no numbers are missing and counted."""
    name = str(event.get("name", ""))
    if "id" in event:
        name = f"{name}[{event['id']}]"
    pid = event.get("pid")
    track = tracks.track("" if pid is None else str(pid), name, "counter")
    track.name = name
    args = event.get("args")
    series = args if isinstance(args, dict) else {"value": args}
    rows = []
    for key, raw in series.items():
        value = _number(raw)
        if value is None:
            quality.add("bad-counter", f"{name}.{key} = {raw!r}")
        rows.append(
            {
                "event_id": event_id,
                "source_id": tracks.source_id,
                "track_id": track.track_id,
                "name": name,
                "series": key,
                "timestamp_ns": timestamp_ns,
                "value": value,
            }
        )
    tables[COUNTER].write_rows(rows)


def _number(raw: Any) -> float | None:
    try:
        value = float(raw)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None
