"""Finding, opening and checking captures that this package wrote."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from trnscope.errors import TrnscopeError
from trnscope.schema import SCHEMA_VERSION, CaptureLayout, CaptureManifest, Table
from trnscope.schema.capture import FileEntry, WindowInfo


@dataclass(frozen=True, slots=True)
class Capture:
    """One complete capture directory: one profiling window of one process."""

    directory: Path
    manifest: CaptureManifest

    @property
    def length_ns(self) -> int:
        """Length of the window on the virtual host clock."""
        return self.manifest.window["end_ns"] - self.manifest.window["start_ns"]

    def table_path(self, table: Table) -> Path | None:
        """The table's Parquet file, or None when the capture has none."""
        path = self.directory / CaptureLayout.table(table.name)
        return path if path.is_file() else None

    def verify_checksums(self) -> None:
        """Read every file of the manifest and compare its SHA-256; TrnscopeError names the first that differs."""
        for entry in self.manifest.files:
            with (self.directory / entry["path"]).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != entry["sha256"]:
                raise TrnscopeError(
                    f"{self.directory / entry['path']} is damaged: its checksum differs from {CaptureLayout.MANIFEST}.",
                    "Capture again, or copy the directory again from where it was written.",
                )


def open_capture(directory: Path) -> Capture:
    """Open one capture directory.

    Checks the manifest, its schema version and the presence and size of every file. Raises TrnscopeError for a
    directory that is incomplete, damaged or too new.
    """
    path = directory / CaptureLayout.MANIFEST
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TrnscopeError(
            f"{directory} is no complete capture: it has no {CaptureLayout.MANIFEST}.",
            "That file is written last. The profiled run was ended before its window closed, or is still going.",
        ) from None
    except (OSError, ValueError) as error:
        raise TrnscopeError(f"{path} cannot be read: {error}.", "Capture again, or copy the file again.") from None
    manifest = _manifest(raw, path)
    _check_files(directory, manifest)
    return Capture(directory, manifest)


def find_captures(path: Path) -> list[Capture]:
    """Captures at or beneath `path`, oldest window first.

    Incomplete directories beneath `path` are passed over; when nothing complete is there, TrnscopeError says what was
    found instead.
    """
    if not path.exists():
        raise TrnscopeError(f"{path} does not exist.", "Give a capture directory, or a directory above captures.")
    if not path.is_dir():
        raise TrnscopeError(f"{path} is a file.", "Give a capture directory, or a directory above captures.")
    if (path / CaptureLayout.MANIFEST).exists() or (path / CaptureLayout.TABLES).exists():
        return [open_capture(path)]
    directories = sorted(manifest.parent for manifest in _manifests(path))
    if not directories:
        unfinished = sorted(str(tables.parent.relative_to(path)) for tables in path.glob("*/*/" + CaptureLayout.TABLES))
        found = f" Incomplete: {', '.join(unfinished)}." if unfinished else ""
        raise TrnscopeError(
            f"{path} holds no complete capture.{found}",
            "Make one with `trnscope run script.py`, or profile with a NeuronConfig.",
        )
    captures = [open_capture(directory) for directory in directories]
    return sorted(captures, key=lambda capture: (capture.manifest.window["start_ns"], capture.directory))


def _manifests(path: Path) -> Iterator[Path]:
    """Manifests one level (windows of a process) or two levels (processes of an output directory) below."""
    for pattern in ("*/", "*/*/"):
        for manifest in path.glob(pattern + CaptureLayout.MANIFEST):
            if not any(part.startswith(".") for part in manifest.relative_to(path).parts):
                yield manifest


def _manifest(raw: Any, path: Path) -> CaptureManifest:
    """Build a manifest from JSON. Fields of a newer minor version are left out."""
    if not isinstance(raw, dict) or not isinstance(raw.get("schema_version"), str):
        raise TrnscopeError(f"{path} is no manifest of a capture: it has no schema_version.", "Capture again.")
    if raw["schema_version"].split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise TrnscopeError(
            f"{path} has schema version {raw['schema_version']}, this trnscope reads {SCHEMA_VERSION.split('.')[0]}.x.",
            f"Read it with the trnscope that wrote it ({raw.get('tool_version', 'version unknown')}), or upgrade.",
        )
    hints = get_type_hints(CaptureManifest)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(CaptureManifest):
        if field.name not in raw or not _fits(raw[field.name], hints[field.name]):
            found = f"it is {raw[field.name]!r}" if field.name in raw else "it is missing"
            raise TrnscopeError(f"{path}: the field {field.name!r} is wrong: {found}.", "Capture again.")
        values[field.name] = raw[field.name]
    return CaptureManifest(**values)


def _fits(value: object, hint: object) -> bool:
    """Whether a JSON value has the type of a manifest field, the fields of nested shapes included."""
    if hint in (WindowInfo, FileEntry):
        fields = get_type_hints(hint)
        return isinstance(value, dict) and all(name in value and _fits(value[name], fields[name]) for name in fields)
    if isinstance(hint, UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(item, get_args(hint)[0]) for item in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(_fits(item, get_args(hint)[1]) for item in value.values())
    if hint is object:
        return True
    assert isinstance(hint, type)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _check_files(directory: Path, manifest: CaptureManifest) -> None:
    """Presence and size of every file; contents are left to `Capture.verify_checksums`."""
    root = directory.resolve()
    for entry in manifest.files:
        file = root / entry["path"]
        if not file.resolve().is_relative_to(root):
            raise TrnscopeError(
                f"{directory / CaptureLayout.MANIFEST} names a file outside of the capture: {entry['path']}.",
                "Do not read captures from this source.",
            )
        if not file.is_file():
            raise TrnscopeError(f"{directory} lacks the file {entry['path']}.", "Copy the whole directory again.")
        if (size := file.stat().st_size) != entry["bytes"]:
            raise TrnscopeError(
                f"{directory / entry['path']} has {size} bytes instead of {entry['bytes']}.",
                "Copy the whole directory again.",
            )
