"""Tables of a capture: names, columns, types, units.

Two groups. Tables that the published Neuron Explorer schema also has carry its names and columns (a subset: every
required column, and the optional ones that are filled); what that schema lacks has tables of trnscope's own. Tables
whose name starts with `Program` hold device rows once per program, with times relative to the program's start; an
execution refers to its program, and the absolute table is the join with `Execution`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `type` is an Arrow type name (`int64`, `string`, `list<int64>`, ...)."""

    name: str
    type: str
    doc: str
    unit: str | None = None
    required: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a capture: a Parquet file under `tables/`."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    explorer: bool = False
    """Whether the published Neuron Explorer schema has this table."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError(f"table {self.name} names a column twice: {names}")


def _ns(name: str, doc: str, required: bool = True) -> Column:
    return Column(name, "int64", doc, "ns", required)


def _int(name: str, doc: str, unit: str | None = None, required: bool = True) -> Column:
    return Column(name, "int64", doc, unit, required)


def _text(name: str, doc: str, required: bool = True) -> Column:
    return Column(name, "string", doc, None, required)


_TENSORS = "list<int64>"

OWN_TABLES: Final = (
    Table(
        "OpRecord",
        "One row per dispatched op or launched graph, in order of entry.",
        (
            _int("op_id", "counts up in the process"),
            _text("op", "aten name with overload, or the name of the graph"),
            _int("program_id", "program it was lowered to; null for views", required=False),
            _int("exec_id", "execution it caused; null for views", required=False),
            _int("device", "logical NeuronCore"),
            _int("stream", "stream of the device"),
            _int("thread", "system thread id"),
            _int("seq_nr", "autograd sequence number, -1 for none"),
            _int("correlation", "torch's correlation id of the enclosing CPU op, 0 when not profiled"),
            _int("external_id", "torch's External id of the CPU op in the trace, 0 when not profiled"),
            _ns("submit_ns", "host, real: the dispatch began (Unix time)"),
            _ns("dispatch_ns", "host, real: length of the dispatch, computing values included"),
            _ns("host_start_ns", "virtual host clock: the dispatch began"),
            _ns("host_end_ns", "virtual host clock: the dispatch ended"),
            Column("inputs", _TENSORS, "storage ids of the neuron tensors among the arguments"),
            Column("outputs", _TENSORS, "storage ids of the results"),
            _text("signature_json", "shapes, strides, dtypes, offsets and scalars as JSON"),
            _int("module_id", "row of Module, null when not asked for", required=False),
            _int("stack_id", "row of Stack, null when not asked for", required=False),
            _text("phase", "forward, backward or optimizer"),
            _int("step", "profiler step, counted from 0 at the start of the window"),
            _text("origin", "eager, compiled, copy, collective or fallback"),
            Column("is_view", "bool", "a view: no execution"),
            Column("mutates", "bool", "writes one of its arguments"),
            Column("uncertain", "bool", "the virtual clock could not order threads here"),
        ),
    ),
    Table(
        "Program",
        "One row per distinct program: what an op, a fused region or a graph was lowered to.",
        (
            _int("program_id", "row id in this capture"),
            _text("key", "stable content hash of op, shapes, dtypes, layout, chip, LNC and model version"),
            _text("name", "op or graph name"),
            _text("kernel", "kernel family that lowered it; `generic` when none of its own exists"),
            _text("split", "how it is split over the physical cores of a logical core"),
            _ns("device_time_ns", "modelled length: union over the physical cores"),
            _ns("low_ns", "5 % end of the model's interval"),
            _ns("high_ns", "95 % end of the model's interval"),
            _text("bound", "compute, memory, overhead, latency, collective or unknown"),
            _text("confidence", "validated, single-witness or unseen"),
            _int("flops", "floating point operations", "flop"),
            _int("hbm_read_bytes", "read from HBM", "bytes"),
            _int("hbm_write_bytes", "written to HBM", "bytes"),
            _int("instructions", "engine instructions, all physical cores"),
            _int("transfers", "DMA transfers, all physical cores"),
            _int("sbuf_peak_bytes", "most SBUF in use on one physical core", "bytes"),
            _int("psum_peak_bytes", "most PSUM in use on one physical core", "bytes"),
        ),
    ),
    Table(
        "Execution",
        "One row per launch of a program on a logical NeuronCore, copies included.",
        (
            _int("exec_id", "unique in the process"),
            _int("program_id", "row of Program; null for host copies", required=False),
            _int("op_id", "row of OpRecord"),
            _int("device", "logical NeuronCore"),
            _int("stream", "stream of the device"),
            _text("category", "kernel, copy or collective"),
            _text("name", "as shown on the device track"),
            _ns("submit_ns", "virtual host clock: the launch"),
            _ns("start_ns", "virtual device clock"),
            _ns("end_ns", "virtual device clock"),
            _ns("device_time_ns", "union over its physical cores: end - start"),
            _int("bytes", "moved by a copy", "bytes", required=False),
            _int("flow_id", "joins the framework, runtime and hardware rows of this execution"),
            Column("first_use", "bool", "the program was loaded for this execution"),
        ),
    ),
    Table(
        "Module",
        "nn.Module instances seen while profiling.",
        (
            _int("module_id", "row id, from 1"),
            _text("path", "dotted path from the outermost module called"),
            _text("type", "class name"),
            _int("parent_id", "enclosing module, null for the outermost", required=False),
        ),
    ),
    Table(
        "Stack",
        "Distinct Python stacks, innermost frame first.",
        (
            _int("stack_id", "row id, from 1"),
            Column("files", "list<string>", "source file of each frame"),
            Column("lines", "list<int64>", "line number of each frame"),
            Column("functions", "list<string>", "qualified function name of each frame"),
        ),
    ),
    Table(
        "Tensor",
        "Device storages that were alive in the window.",
        (
            _int("storage_id", "never used again in the process"),
            _int("device", "logical NeuronCore"),
            _int("bytes", "requested", "bytes"),
            _int("reserved_bytes", "after rounding to a size class", "bytes"),
            _int("address", "virtual HBM address in the modelled device"),
            _ns("alloc_ns", "virtual host clock; null when it existed before the window", required=False),
            _ns("free_ns", "virtual host clock; null when alive at the end of the window", required=False),
        ),
    ),
    Table(
        "Graph",
        "Compiled graphs.",
        (
            _int("graph_id", "row id, from 0"),
            _text("name", "graph name"),
            _text("kind", "inference, forward or backward"),
            _int("nodes", "call nodes"),
            _ns("compile_ns", "host, real: Dynamo's own time excluded"),
            _text("graph_json", "nodes and edges as JSON"),
        ),
    ),
    Table(
        "HostInterval",
        "What the host did, on its virtual clock, per thread; consecutive intervals touch.",
        (
            _int("thread", "system thread id"),
            _text("category", "dispatch, python, sync or copy"),
            _ns("start_ns", "virtual host clock"),
            _ns("end_ns", "virtual host clock"),
            _int("op_id", "record that caused it, null for python", required=False),
            Column("uncertain", "bool", "threads could not be ordered here"),
        ),
    ),
    Table(
        "ClockSync",
        "Knots of the piecewise linear map from real to virtual host time, per thread.",
        (
            _int("thread", "system thread id"),
            _ns("real_ns", "Unix time"),
            _ns("virtual_ns", "virtual host clock"),
        ),
    ),
    Table(
        "DataQuality",
        "What is missing from or was repaired in this capture.",
        (
            _text("kind", "kebab-case id of the repair or gap"),
            _int("count", "how often"),
            _text("detail", "one sentence with an example"),
            _int("source_id", "row of Source: an imported file", required=False),
            _text("severity", "repaired (value kept), dropped (kept as text only) or missing", required=False),
            _text("affects", "which figures suffer", required=False),
            _text("examples", "JSON list of at most five: where and what", required=False),
        ),
    ),
    Table(
        "Step",
        "Profiler steps of the window.",
        (
            _int("step", "counted from 0 at the start of the window"),
            _ns("start_ns", "virtual host clock"),
            _ns("end_ns", "virtual host clock"),
        ),
    ),
)

EXPLORER_TABLES: Final = (
    Table(
        "SystemProfileEvents",
        "Runtime and hardware events of each execution, joined by flow_id.",
        (
            _int("id", "row id"),
            _text("name", "nrt_execute, kbl_exec_pre, kbl_exec_wait, nrt_load, nc_exec_running, ..."),
            _ns("start_ts", "start"),
            _ns("end_ts", "end"),
            _ns("duration_ns", "end - start"),
            _text("trace_event_source", "framework, neuron_rt or neuron_hw"),
            _text("instance_id", "instance of the capture"),
            _int("process_id", "process"),
            _int("thread_id", "system thread id, 0 for hardware rows"),
            _int("nc_idx", "logical NeuronCore", required=False),
            _int("pcore_idx", "physical core within the logical one", required=False),
            _int("worker_gid", "global rank", required=False),
            Column("flow_id", "list<string>", "joins the rows of one execution", required=False),
            _text("framework_stream_id", "stream", required=False),
            _text("extra_attributes_json", "exec_id, program_id, model_name, ...", required=False),
        ),
        explorer=True,
    ),
    Table(
        "ProgramInstruction",
        "Engine instructions of a program in relative time (the published table `Instruction`).",
        (
            _int("program_id", "row of Program"),
            _ns("start_ts", "relative to the program's start"),
            _ns("end_ts", "relative to the program's start"),
            _ns("duration_ns", "end - start"),
            _text("engine", "tensor, vector, scalar, gpsimd or sync"),
            _int("pcore_idx", "physical core within the logical one"),
            _text("opcode", "instruction of the NeuronCore"),
            _text("operands", "what it works on"),
            _int("id", "row id within the program"),
            _int("pc", "position in its engine's instruction stream"),
            _text("bir_id", "empty: there is no compiler listing behind a modelled program"),
            _text("hlo_name", "op within the program", required=False),
            _ns("evt_wait_time_ns", "waited before it could start", required=False),
            _text("stall_reason", "why it waited (column of trnscope's own)", required=False),
            _int("critical_id", "instruction or transfer it waited for last (own column)", required=False),
            _int("raw_flops", "floating point operations", "flop", required=False),
            _int("sbuf_read_bytes", "read from SBUF", "bytes", required=False),
            _int("sbuf_write_bytes", "written to SBUF", "bytes", required=False),
        ),
        explorer=True,
    ),
    Table(
        "ProgramDmaPacketAggregated",
        "DMA transfers of a program in relative time (the published table `DmaPacketAggregated`).",
        (
            _int("program_id", "row of Program"),
            _ns("start_ts", "relative to the program's start"),
            _ns("end_ts", "relative to the program's start"),
            _ns("duration_ns", "end - start"),
            _int("id", "row id within the program"),
            _int("pcore_idx", "physical core within the logical one"),
            Column("block_id", "int32", "DMA block"),
            _int("queue_idx", "ring"),
            _text("queue_name", "ring name"),
            _text("queue_type", "input, output or data", required=False),
            _text("op", "op within the program"),
            _text("variable", "tensor moved"),
            _int("read_bytes", "read", "bytes"),
            _int("write_bytes", "written", "bytes"),
            _int("transfer_bytes", "moved", "bytes"),
            Column("throughput", "float64", "bytes over duration", "bytes/s"),
            _text("source", "HBM, SBUF or PSUM"),
            _text("dest", "HBM, SBUF or PSUM"),
            _text("semaphore_id", "raised at completion"),
            _int("descriptors", "DMA descriptors (own column)", required=False),
            _int("run_bytes", "contiguous bytes per descriptor (own column)", "bytes", required=False),
        ),
        explorer=True,
    ),
    Table(
        "ProgramActiveTime",
        "Merged busy intervals per engine in relative time (the published table `ActiveTime`).",
        (
            _int("program_id", "row of Program"),
            _ns("start_ts", "relative to the program's start"),
            _ns("end_ts", "relative to the program's start"),
            _text("engine", "tensor, vector, scalar, gpsimd, sync or dma"),
            _int("pcore_idx", "physical core within the logical one"),
            _ns("duration_ns", "end - start"),
        ),
        explorer=True,
    ),
    Table(
        "SystemProfileHbmUsage",
        "Modelled HBM use per logical core, at each change.",
        (
            _ns("timestamp", "virtual host clock"),
            _int("nc_idx", "logical NeuronCore"),
            _int("allocated_bytes", "held by tensors, after rounding", "bytes"),
            _int("reserved_bytes", "held by segments", "bytes"),
        ),
        explorer=True,
    ),
    Table(
        "CpuUsage",
        "Real samples of the emulating host process.",
        (
            _ns("timestamp", "real host clock (Unix time)"),
            Column("percent", "float64", "CPU of this process; 100 is one full core", "percent"),
            _int("threads", "threads of this process"),
        ),
        explorer=True,
    ),
    Table(
        "HostMemUsage",
        "Real samples of the emulating host process.",
        (
            _ns("timestamp", "real host clock (Unix time)"),
            _int("rss_bytes", "resident set of this process", "bytes"),
        ),
        explorer=True,
    ),
)

TABLES: Final[Mapping[str, Table]] = MappingProxyType({t.name: t for t in (*OWN_TABLES, *EXPLORER_TABLES)})
