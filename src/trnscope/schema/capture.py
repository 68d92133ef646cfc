"""Layout of a capture directory and the shape of `capture.json`."""

from dataclasses import dataclass, field
from typing import Final, TypedDict


class FileEntry(TypedDict):
    """One file of a capture."""

    path: str
    bytes: int
    sha256: str


class WindowInfo(TypedDict):
    """The profiling window of a capture."""

    start_ns: int
    end_ns: int
    """Virtual host clock, shifted so that the window's start equals its real Unix time."""
    host_mode: str
    compute_mode: str
    steps: int


@dataclass(slots=True)
class CaptureManifest:
    """`capture.json`: written last, atomically. A directory without it is incomplete."""

    schema_version: str
    profile_schema_version: str
    tool_version: str
    chip: str
    instance: str
    lnc: int
    model_version: str
    calibration_id: str
    is_simulation: bool
    """Always true for captures that this package's own device made."""
    torch_version: str
    process_id: int
    rank: int
    command: list[str]
    """The script and its arguments."""
    window: WindowInfo
    profile: dict[str, object]
    """The NeuronConfig of the session and torch's own profiler switches."""
    counts: dict[str, int]
    """Rows per table, and `dropped_executions`."""
    caveats: list[str]
    files: list[FileEntry] = field(default_factory=list)


class CaptureLayout:
    """File names inside `<out>/<instance>_pid_<pid>/<timestamp>/`."""

    MANIFEST: Final = "capture.json"
    TRACE: Final = "trace.json"
    TABLES: Final = "tables"
    NOTES: Final = "notes.json"
    VIEW: Final = "view.json"

    NEFF_MAGIC: Final = b"TRNSCOPE-NEFF 1\n"
    NTFF_MAGIC: Final = b"TRNSCOPE-NTFF 1\n"
    """First bytes of trnscope's own containers, so that nobody takes them for the vendor's formats."""

    @staticmethod
    def process_directory(instance: str, pid: int) -> str:
        return f"{instance}_pid_{pid}"

    @staticmethod
    def table(name: str) -> str:
        return f"tables/{name}.parquet"

    @staticmethod
    def neff(program_key: str, core: int) -> str:
        return f"neff_{program_key}_vnc_{core}.neff"

    @staticmethod
    def ntff(core: int, session: int) -> str:
        return f"profile_nc_{core}_session_{session}.ntff"
