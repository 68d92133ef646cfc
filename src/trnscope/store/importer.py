"""Importing files and directories into an import directory.

Layout: `store.json` (written last, atomically), `tables/Source.parquet` and `tables/DataQuality.parquet`, and per
source `sources/<n>/` with its tables and `source.json`. A source whose `source.json` matches the file and the versions
is not read again: an import that was stopped goes on where it was, and one that is complete costs nothing.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from trnscope._version import __version__
from trnscope.errors import TrnscopeError
from trnscope.schema.events import EVENT_MODEL_VERSION, SOURCE
from trnscope.schema.tables import TABLES
from trnscope.store.detect import Detected, detect
from trnscope.store.layout import MANIFEST, ProgressFactory, default_directory
from trnscope.store.quality import Quality
from trnscope.store.readers import READERS
from trnscope.store.source import SourceContext, SourceFacts
from trnscope.store.table_files import TableFile, TableSet
from trnscope.store.torch_trace import rank_in_name
from trnscope.store.tracks import TrackRegistry

_SOURCE_MANIFEST: Final = "source.json"
_IMPORT_VERSION: Final = 1
"""Raised when a reader's result changes: import directories of an older one are made again."""

_SAMPLE: Final = 1 << 20


@dataclass(slots=True)
class ImportResult:
    """Where the import is and what it cost."""

    directory: Path
    imported: int
    """Sources read now."""
    kept: int
    """Sources that were there already."""
    skipped: dict[str, str]
    """Files of a directory that are no traces, and why."""


def import_traces(
    paths: list[Path],
    out: Path | None = None,
    *,
    force: bool = False,
    progress: ProgressFactory = lambda _path, _index, _count: lambda _bytes: None,
) -> ImportResult:
    """Import files, or the traces of one directory, into `out` (default: `default_directory` of the first path).

    Raises TrnscopeError when nothing can be imported. Source files are only read.
    """
    found, skipped = find_sources(paths)
    if not found:
        reasons = "\n  ".join(f"{name}: {why}" for name, why in list(skipped.items())[:8])
        raise TrnscopeError(f"no trace in {', '.join(map(str, paths))}", reasons or "the directory is empty")
    directory = out if out is not None else default_directory(paths[0])
    _claim(directory)
    root = paths[0] if len(paths) == 1 and paths[0].is_dir() else None
    entries: list[dict[str, Any]] = []
    imported = 0
    for number, (path, detected) in enumerate(found):
        target = directory / "sources" / f"{number:04d}"
        label = str(path.relative_to(root)) if root is not None else path.name
        print_of_file = fingerprint(path, number)
        entry = None if force else _finished(target, print_of_file)
        if entry is None:
            entry = _import_source(number, path, label, detected, target, progress(path, number + 1, len(found)))
            entry["fingerprint"] = print_of_file
            _write_json(target / _SOURCE_MANIFEST, entry)
            imported += 1
        entries.append(entry)
    for stale in sorted((directory / "sources").iterdir())[len(found) :]:
        shutil.rmtree(stale)
    if imported or not (directory / MANIFEST).exists():
        _finish(directory, entries, skipped)
    return ImportResult(directory, imported, len(found) - imported, skipped)


def find_sources(paths: list[Path]) -> tuple[list[tuple[Path, Detected]], dict[str, str]]:
    """Traces among the given files and directories in a stable order, and what is not one with the reason."""
    found: list[tuple[Path, Detected]] = []
    skipped: dict[str, str] = {}
    for path in paths:
        if not path.exists():
            raise TrnscopeError(f"{path}: no such file or directory", "check the path")
        if path.is_file():
            found.append((path, detect(path)))
            continue
        if is_explorer_directory(path):
            found.append((path, Detected("explorer-parquet", "plain")))
            continue
        for candidate in _walk(path):
            if candidate.is_dir():
                found.append((candidate, Detected("explorer-parquet", "plain")))
                continue
            try:
                found.append((candidate, detect(candidate)))
            except TrnscopeError as error:
                skipped[str(candidate.relative_to(path))] = error.what.removeprefix(f"{candidate}: ")
    return found, skipped


def is_explorer_directory(path: Path) -> bool:
    """A directory of Parquet tables of the Neuron Explorer schema."""
    return any(path.glob("Metadata*.parquet")) or any(path.glob("SchemaFields*.parquet"))


def _walk(root: Path) -> list[Path]:
    found: list[Path] = []
    for directory, names, files in os.walk(root):
        here = Path(directory)
        names[:] = sorted(n for n in names if not n.startswith(".") and not (here / n / MANIFEST).exists())
        if here != root and is_explorer_directory(here):
            found.append(here)
            names.clear()
            continue
        found.extend(here / name for name in sorted(files) if not name.startswith("."))
    return sorted(found)


def fingerprint(path: Path, number: int) -> dict[str, Any]:
    """What must be equal for an import to be taken as it is: sizes, samples of the content, versions."""
    digest = hashlib.sha256()
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    size = 0
    for file in files:
        stored = file.stat().st_size
        size += stored
        digest.update(f"{file.name if path.is_dir() else ''}:{stored}:".encode())
        with file.open("rb") as data:
            digest.update(data.read(_SAMPLE))
            if stored > 2 * _SAMPLE:
                data.seek(stored // 2)
                digest.update(data.read(_SAMPLE))
            if stored > _SAMPLE:
                data.seek(max(_SAMPLE, stored - _SAMPLE))
                digest.update(data.read(_SAMPLE))
    return {
        "bytes": size,
        "sample_sha256": digest.hexdigest(),
        "source_id": number,
        "event_model": EVENT_MODEL_VERSION,
        "import_version": _IMPORT_VERSION,
    }


def _claim(directory: Path) -> None:
    """Make the directory, refusing to write into one that is something else."""
    try:
        if directory.exists() and any(directory.iterdir()) and not (directory / "sources").is_dir():
            raise TrnscopeError(
                f"{directory}: is not empty and is no import directory", "give another directory with --out"
            )
        (directory / "sources").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrnscopeError(
            f"{directory}: cannot be written: {error.strerror}", "give another directory with --out or TRNSCOPE_CACHE"
        ) from None


def _finished(target: Path, wanted: dict[str, Any]) -> dict[str, Any] | None:
    try:
        entry: dict[str, Any] = json.loads((target / _SOURCE_MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    return entry if entry.get("fingerprint") == wanted else None


def _import_source(
    number: int, path: Path, label: str, detected: Detected, target: Path, progress: Callable[[int], None]
) -> dict[str, Any]:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    quality = Quality()
    tables = TableSet(target)
    tracks = TrackRegistry(number)
    context = SourceContext(number, path, tables, tracks, quality, progress)
    try:
        facts = READERS[detected.format](context)
    except TrnscopeError as error:
        tables.close()
        if str(path) in error.what:
            raise
        raise TrnscopeError(f"{path}: {error.what}", error.hint) from None
    tracks.write(tables)
    tables.close()
    shutil.rmtree(target / "spill", ignore_errors=True)
    return _entry(number, path, label, detected, facts, quality, tables)


def _entry(
    number: int, path: Path, label: str, detected: Detected, facts: SourceFacts, quality: Quality, tables: TableSet
) -> dict[str, Any]:
    rank_origin = "file" if facts.rank is not None else "none"
    if facts.rank is None:
        facts.rank = rank_in_name(path.name)
        rank_origin = "name" if facts.rank is not None else "none"
    if facts.format == "torch-trace":
        if rank_origin != "file":
            quality.add("missing-rank", f"{path.name}: taken from the {rank_origin}" if facts.rank is not None else "")
        if facts.base_time_ns is None:
            quality.add("no-clock-base")
    size = sum(f.stat().st_size for f in path.glob("*.parquet")) if path.is_dir() else path.stat().st_size
    source = {
        **{key: value for key, value in asdict(facts).items() if key not in ("linking", "extra")},
        "source_id": number,
        "path": label,
        "container": detected.container,
        "file_bytes": size,
        "rank_origin": rank_origin,
    }
    return {
        "source": source,
        "linking": facts.linking,
        "extra": facts.extra,
        "rows": tables.rows(),
        "quality": quality.rows(number),
    }


def _finish(directory: Path, entries: list[dict[str, Any]], skipped: dict[str, str]) -> None:
    """The tables over all sources, then the manifest."""
    _settle_ranks(entries)
    tables = directory / "tables"
    shutil.rmtree(tables, ignore_errors=True)
    tables.mkdir()
    with TableFile(SOURCE, tables / "Source.parquet") as sources:
        sources.write_rows([entry["source"] for entry in entries])
    with TableFile(TABLES["DataQuality"], tables / "DataQuality.parquet") as quality:
        quality.write_rows([row for entry in entries for row in entry["quality"]])
    _write_json(
        directory / MANIFEST,
        {
            "event_model": EVENT_MODEL_VERSION,
            "import_version": _IMPORT_VERSION,
            "tool_version": __version__,
            "sources": entries,
            "skipped": skipped,
        },
    )


def _settle_ranks(entries: list[dict[str, Any]]) -> None:
    """Give every trace of a job a rank of its own; what a file says wins over order."""
    traces = [entry for entry in entries if entry["source"]["format"] in ("torch-trace", "chrome-trace")]
    if len(traces) < 2:
        return
    taken: set[int] = set()
    pending = []
    for entry in traces:
        rank = entry["source"]["rank"]
        if rank is None or rank in taken:
            pending.append(entry)
        else:
            taken.add(rank)
    for entry in pending:
        if entry["source"]["rank"] is not None:
            quality = Quality()
            quality.add("duplicate-rank", f"{entry['source']['path']} says {entry['source']['rank']}")
            entry["quality"] += quality.rows(entry["source"]["source_id"])
        free = next(k for k in range(len(taken) + 1) if k not in taken)
        taken.add(free)
        entry["source"]["rank"], entry["source"]["rank_origin"] = free, "order"


def _write_json(path: Path, content: dict[str, Any]) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
    with os.fdopen(handle, "w") as file:
        json.dump(content, file, indent=1, default=str)
    Path(temporary).replace(path)
