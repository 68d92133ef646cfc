"""Where imports lie."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

MANIFEST: Final = "store.json"
"""Of an import directory: written last."""

ProgressFactory = Callable[[Path, int, int], Callable[[int], None]]
"""(file, its number from 1, number of files) -> takes bytes of decompressed content read so far."""


def default_directory(path: Path) -> Path:
    """Where an import goes by default: beside the file when that is writable, else the user's cache.

    `TRNSCOPE_CACHE` names another place.
    """
    resolved = path.resolve()
    beside = resolved.parent / f"{resolved.name}.trnscope"
    cache = os.environ.get("TRNSCOPE_CACHE")
    if cache is None and (beside.exists() or os.access(resolved.parent, os.W_OK)):
        return beside
    base = Path(cache) if cache else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trnscope"
    digest = hashlib.sha256(str(resolved).encode()).hexdigest()[:12]
    return base / "imports" / f"{resolved.name}-{digest}"
