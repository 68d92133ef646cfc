"""The event model: tables that any imported trace becomes.

One import directory holds one or more sources (a source is one file: usually one rank). Identifiers are stable: they
depend on the order of the sources and on positions inside each file, never on the import, so a slice has the same id
whenever the same file is imported.

Times are integer nanoseconds on the source's own clock; `Source.base_time_ns` places that clock on Unix time where the
file says so.
"""

from typing import Final

from trnscope.schema.columns import Column, Table, integer, ns, text

EVENT_MODEL_VERSION: Final = "1.0.0"
"""Version of these tables. A major step means that import directories must be imported again."""

SLICE_ID_BITS: Final = 40
"""`slice_id = source_id << 40 | position of the event in its file`. Also used by every other table with event ids."""

TRACK_ID_BITS: Final = 32
"""`track_id = source_id << 32 | number of first appearance`, the same for `process_id`."""


_SOURCE: Final = integer("source_id", "row of Source")

SOURCE: Final = Table(
    "Source",
    "One imported file.",
    (
        _SOURCE,
        text("path", "as it was given, relative to the imported directory where there is one"),
        text("format", "what the content was recognised as: torch-trace, chrome-trace, neuron-profile, ..."),
        text("container", "plain, gzip, zstd or zip"),
        integer("file_bytes", "size on disk", "bytes"),
        integer("rank", "global rank; null when the file does not say", required=False),
        text("rank_origin", "where the rank comes from: file, name, order or none"),
        integer("world_size", "ranks of the job", required=False),
        ns("base_time_ns", "add to start_ns for Unix time; null when unknown", required=False),
        text("device_name", "name of the accelerator as the file gives it", required=False),
        text("framework", "framework and version as the file gives them", required=False),
        integer("events", "elements of the file's event arrays, metadata included"),
        ns("start_ns", "first timestamp of a slice, instant or counter", required=False),
        ns("end_ns", "last end of a slice, instant or counter", required=False),
    ),
)

PROCESS: Final = Table(
    "Process",
    "Processes as the trace names them: a host process, a device, or a group such as `Spans`.",
    (
        integer("process_id", "unique in the import"),
        _SOURCE,
        text("pid", "as in the file"),
        text("name", "process name", required=False),
        text("labels", "labels", required=False),
        integer("sort_index", "display order", required=False),
    ),
)

TRACK: Final = Table(
    "Track",
    "One row of events in time: a thread, a device stream, an engine, a counter or a family of async events.",
    (
        integer("track_id", "unique in the import"),
        _SOURCE,
        integer("process_id", "row of Process"),
        text("tid", "as in the file"),
        text("kind", "thread, stream, engine, queue, counter or async"),
        text("name", "thread name", required=False),
        integer("device", "device index of a stream", required=False),
        integer("stream", "stream number of a stream", required=False),
        integer("sort_index", "display order", required=False),
        integer("lanes", "rows needed so that no two slices of one row overlap without nesting"),
    ),
)

SLICE: Final = Table(
    "Slice",
    "Everything that has a duration.",
    (
        integer("slice_id", "unique in the import, in file order"),
        _SOURCE,
        integer("track_id", "row of Track"),
        text("name", "name"),
        text("category", "as in the file", required=False),
        text("kind", "op, annotation, python, runtime, kernel, copy, memset, sync, instruction, dma or other"),
        ns("start_ns", "start"),
        ns("duration_ns", "duration after repairs, never negative"),
        integer("correlation", "joins a launch and what it started on the device", required=False),
        integer("external_id", "joins a launch or device slice and its op", required=False),
        integer("sequence_number", "autograd sequence number", required=False),
        integer("forward_thread", "of a backward op: thread of its forward op", required=False),
        integer("device", "device of a device slice", required=False),
        integer("stream", "stream of a device slice", required=False),
        integer("repairs", "sum of RepairFlag bits, 0 for an untouched slice"),
        text("args", "arguments as JSON text", required=False),
    ),
)

NESTING: Final = Table(
    "Nesting",
    "Where each slice lies on its track; sorted by track and start.",
    (
        integer("slice_id", "row of Slice"),
        _SOURCE,
        integer("track_id", "row of Track"),
        ns("start_ns", "start"),
        ns("duration_ns", "duration"),
        integer("lane", "row within the track; slices of one lane nest and never cross"),
        integer("depth", "how many slices of its lane enclose it"),
        integer("parent_id", "innermost slice of the track that encloses it", required=False),
        integer("op_id", "innermost enclosing op", required=False),
        integer("annotation_id", "innermost enclosing annotation", required=False),
        integer("python_id", "innermost enclosing Python function", required=False),
        ns("covered_ns", "part of the parent that this slice, but no earlier sibling, covers"),
    ),
)

INSTANT: Final = Table(
    "Instant",
    "Events without duration.",
    (
        integer("event_id", "unique in the import, in file order"),
        _SOURCE,
        integer("track_id", "row of Track"),
        text("name", "name"),
        text("category", "as in the file", required=False),
        text("scope", "g (global), p (process), t (thread); null when not given", required=False),
        ns("timestamp_ns", "when"),
        text("args", "arguments as JSON text", required=False),
    ),
)

COUNTER: Final = Table(
    "Counter",
    "Samples of named values.",
    (
        integer("event_id", "unique in the import, in file order; the series of one event share it"),
        _SOURCE,
        integer("track_id", "row of Track"),
        text("name", "name of the counter"),
        text("series", "name of the series in the counter"),
        ns("timestamp_ns", "when"),
        Column("value", "float64", "value from then on", required=False),
    ),
)

FLOW_POINT: Final = Table(
    "FlowPoint",
    "Ends and steps of arrows between slices.",
    (
        integer("event_id", "unique in the import, in file order"),
        _SOURCE,
        integer("track_id", "row of Track"),
        text("phase", "s (start), t (step) or f (finish)"),
        text("flow", "id of the arrow as in the file", required=False),
        text("name", "name"),
        text("category", "as in the file", required=False),
        ns("timestamp_ns", "when"),
    ),
)

POINT_BINDING: Final = Table(
    "PointBinding",
    "The slice that a flow point or an instant lies in; points outside of any slice have no row.",
    (
        integer("event_id", "row of FlowPoint or Instant"),
        _SOURCE,
        integer("slice_id", "innermost slice of the track at that time"),
    ),
)

KERNEL_LINK: Final = Table(
    "KernelLink",
    "Who started each device slice.",
    (
        integer("slice_id", "device slice"),
        _SOURCE,
        integer("launch_id", "runtime slice that started it", required=False),
        integer("op_id", "innermost op on the launching thread", required=False),
        text("method", "how the op was found: enclosing, external-id or none"),
        text("reason", "why a link is missing; null for a complete one", required=False),
    ),
)

AUTOGRAD_LINK: Final = Table(
    "AutogradLink",
    "Backward ops and the forward ops that recorded them, by autograd sequence number.",
    (
        integer("backward_id", "slice of the backward op"),
        _SOURCE,
        integer("forward_id", "slice of the forward op"),
        integer("sequence_number", "shared by both"),
    ),
)

TRACE_METADATA: Final = Table(
    "TraceMetadata",
    "Everything a file says outside of its events, and metadata events without a column of their own.",
    (
        _SOURCE,
        text("key", "top-level key, or `event:` and the name of a metadata event"),
        text("value", "as JSON text"),
    ),
)

RAW_EVENT: Final = Table(
    "RawEvent",
    "Events that are kept as they are because they have no place in the model.",
    (
        integer("event_id", "unique in the import, in file order"),
        _SOURCE,
        text("reason", "kebab-case id, as in DataQuality"),
        integer("byte_offset", "in the decompressed file", "bytes"),
        text("text", "as in the file, cut at 64 KiB; invalid bytes as replacement characters"),
    ),
)

EVENT_TABLES: Final = (
    SOURCE,
    PROCESS,
    TRACK,
    SLICE,
    NESTING,
    INSTANT,
    COUNTER,
    FLOW_POINT,
    POINT_BINDING,
    KERNEL_LINK,
    AUTOGRAD_LINK,
    TRACE_METADATA,
    RAW_EVENT,
)
"""Tables of the event model. `DataQuality` is shared with captures and lies in `schema.tables`."""

SLICE_KINDS: Final = (
    "other",
    "op",
    "annotation",
    "python",
    "runtime",
    "kernel",
    "copy",
    "memset",
    "sync",
    "instruction",
    "dma",
)
"""`Slice.kind`; the position is the code used while importing."""

DEVICE_KINDS: Final = ("kernel", "copy", "memset")
"""Kinds that occupy a device: they are counted as device executions and linked to ops."""

CATEGORY_KINDS: Final = {
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "annotation",
    "gpu_user_annotation": "other",
    "python_function": "python",
    "python function": "python",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "runtime": "runtime",
    "hip_runtime": "runtime",
    "xpu_runtime": "runtime",
    "xpu_driver": "runtime",
    "mtia_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "kernel": "kernel",
    "mtia_ccp_events": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "copy",
    "memcpy": "copy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_sync": "sync",
    "privateuse1_driver": "other",
}
"""Lower-case trace category -> `Slice.kind`. `privateuse1_driver` repeats executions that `kernel` counts."""
