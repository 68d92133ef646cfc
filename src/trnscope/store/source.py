"""What a reader works with and what it returns."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trnscope.store.quality import Quality
from trnscope.store.table_files import TableSet
from trnscope.store.tracks import TrackRegistry


@dataclass(slots=True)
class SourceContext:
    """One file being imported: where it is, and where its tables go."""

    source_id: int
    path: Path
    tables: TableSet
    tracks: TrackRegistry
    quality: Quality
    progress: Callable[[int], None] = lambda _bytes: None


@dataclass(slots=True)
class SourceFacts:
    """What a reader found out about its file. Columns of the table Source, and how linking went."""

    format: str
    events: int = 0
    rank: int | None = None
    world_size: int | None = None
    base_time_ns: int | None = None
    device_name: str | None = None
    framework: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    linking: dict[str, int] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    """Format-specific facts for `info`: versions, sizes, pairs."""
