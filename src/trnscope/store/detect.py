"""Recognising trace files by their content. Names are never looked at."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trnscope.errors import TrnscopeError
from trnscope.schema.capture import CaptureLayout
from trnscope.store.byte_source import container_of, open_bytes
from trnscope.store.json_document import JsonDocument
from trnscope.store.quality import Quality

FORMATS: Final = {
    "torch-trace": "chrome trace of torch.profiler",
    "chrome-trace": "chrome trace",
    "neuron-profile": "device profile as neuron-profile or Neuron Explorer writes it to JSON",
    "neuron-system": "system profile as neuron-profile or Neuron Explorer writes it to JSON",
    "explorer-parquet": "directory of Neuron Explorer Parquet tables",
    "memory-snapshot": "memory snapshot of PyTorch's caching allocator",
    "framework-mapping": "framework mapping of the Neuron PyTorch backend",
    "ntff": "raw device trace (NTFF)",
    "neff": "compiled program (NEFF)",
    "trnscope-ntff": "trnscope's own device trace container",
    "trnscope-neff": "trnscope's own program container",
}

_HEAD_BYTES: Final = 64 << 10
_DETECT_BYTES: Final = 1 << 30
_DEVICE_KEYS: Final = frozenset(
    {"semaphore_update", "instruction", "neff_header", "neff_node", "profile_info", "dma_queues_info", "layer_summary",
     "active_time", "pending_dma", "dma_throughput", "model_info", "terminology", "instruction_usage", "nc_mem_usage",
     "ham", "summary_groups", "summary_group_order", "dma"}
)  # fmt: skip
_SNAPSHOT_KEYS: Final = frozenset({"segments", "device_traces", "allocator_settings"})


@dataclass(frozen=True, slots=True)
class Detected:
    """What a file is: a key of `FORMATS` and its container."""

    format: str
    container: str


class _Sink:
    """Takes written bytes and forgets them."""

    def write(self, data: object) -> int:
        return len(data)  # type: ignore[arg-type]


def detect(path: Path) -> Detected:
    """Recognise a file. Raises TrnscopeError naming the file and what was found when it is none of `FORMATS`."""
    with open_bytes(path) as reader:
        head = reader.read(_HEAD_BYTES)
    with path.open("rb") as file:
        container = container_of(file.read(4))
    return Detected(_of_bytes(path, head), container)


def _of_bytes(path: Path, head: bytes) -> str:
    if not head:
        raise TrnscopeError(f"{path}: the file is empty", "nothing can be read from it")
    if head.startswith(CaptureLayout.NTFF_MAGIC):
        return "trnscope-ntff"
    if head.startswith(CaptureLayout.NEFF_MAGIC):
        return "trnscope-neff"
    stripped = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if stripped[:1] in (b"{", b"["):
        return _of_json(path)
    if head[:1] == b"\x80" and 2 <= head[1] <= 5:
        return "memory-snapshot"
    binary = _of_neuron_binary(head)
    if binary is not None:
        return binary
    raise TrnscopeError(
        f"{path}: not a trace: the content begins with {head[:16]!r} at byte 0",
        "known are: " + ", ".join(sorted(FORMATS)),
    )


def _of_neuron_binary(head: bytes) -> str | None:
    from trnscope.store.neuron_binary import looks_like_neff, looks_like_ntff

    if looks_like_ntff(head):
        return "ntff"
    return "neff" if looks_like_neff(head) else None


def _of_json(path: Path) -> str:
    with open_bytes(path, _DETECT_BYTES) as reader:
        document = JsonDocument(reader, Quality(), 1 << 20)
        if document.open() == "[":
            return _of_array(path, document)
        keys = []
        while (key := document.next_key()) is not None:
            keys.append(key)
            if key == "traceEvents":
                return "chrome-trace"
            if key in _DEVICE_KEYS:
                return "neuron-profile"
            if key in ("trace_events", "mem_usage", "cpu_util"):
                return "neuron-system"
            if key in _SNAPSHOT_KEYS:
                return "memory-snapshot"
            if key == "data" and document.peek() == ord("["):
                sample = document.text(document.position, min(document.position + 4096, document.end))
                if b"nrta_seq_id" in sample:
                    return "framework-mapping"
            document.spool(_Sink())  # type: ignore[arg-type]
        raise TrnscopeError(
            f"{path}: JSON, but no trace: its {len(keys)} top-level keys are {', '.join(keys[:8]) or 'none'}",
            "a trace has `traceEvents`, a Neuron profile has tables such as `instruction`",
        )


def _of_array(path: Path, document: JsonDocument) -> str:
    if document.peek() == ord("]"):
        return "chrome-trace"
    offset = document.offset
    sample = document.capture()
    try:
        element = json.loads(sample)
    except ValueError:
        element = None
    if (isinstance(element, dict) and "ph" in element) or (element is None and b'"ph"' in sample):
        return "chrome-trace"
    raise TrnscopeError(
        f"{path}: a JSON array, but its first element (byte {offset}) is no trace event", "an event has the key `ph`"
    )
