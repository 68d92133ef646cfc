"""The `neuron` backend of torch.compile."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch.fx import GraphModule

from trnscope.compiler.executable import Executable
from trnscope.compiler.lowering import lower
from trnscope.compiler.placement import Placement, move_to_device
from trnscope.compiler.registry import CompiledGraph, registry
from trnscope.errors import TrnscopeError

logger = logging.getLogger(__name__)

DEFAULT_MODEL_NAME = "neuron_graph"
WITHOUT_EFFECT = ("fallback_execution", "compiler_args", "compiler_workdir")
"""Options of the real backend that change nothing here: a graph either compiles or raises."""


def neuron_backend(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str = "default",
) -> Callable[..., Any]:
    """Compile a Dynamo graph: one device launch per forward, backward or inference graph.

    Args:
        gm: graph captured by Dynamo.
        example_inputs: its fake inputs.
        options: `model_name` names the graphs in profiles (default `neuron_graph`); `dynamic` may only be False.
        mode: other than `default` is ignored with a warning.

    Shapes are static: another shape compiles another graph.

    Raises:
        TrnscopeError: an unknown option, or dynamic shapes were asked for.
    """
    if mode != "default":
        logger.warning("Neuron backend does not support mode=%r, falling back to default mode.", mode)
    model_name = _model_name(options or {})
    if not torch._dynamo.config.assume_static_by_default:
        raise _dynamic_refused("torch.compile(dynamic=True)")
    _specialise(example_inputs)

    def compiler(kind: str) -> Callable[[GraphModule, Sequence[Any]], Executable]:
        return lambda graph, _inputs: compile_graph(graph, model_name, kind)

    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        keep_inference_input_mutations=True,
    )(gm, example_inputs)
    return compiled


def compile_graph(gm: GraphModule, model_name: str, kind: str) -> Executable:
    """Compile one ATen-level graph and enter it in the registry of this process."""
    graph_id, name = registry.reserve(model_name, kind)
    start_ns = time.perf_counter_ns()
    placement = Placement.of(gm)
    if placement.traced_on_cpu:
        move_to_device(gm, torch.device("neuron", torch.neuron.current_device()))
    passes_ns = time.perf_counter_ns()
    spec = lower(gm, name, kind, placement)
    lower_ns = time.perf_counter_ns()
    executable = Executable(gm, spec, placement)
    compile_ns = time.perf_counter_ns()
    graph = CompiledGraph(
        graph_id=graph_id,
        model_name=model_name,
        spec=spec,
        call_nodes=sum(node.op == "call_function" for node in gm.graph.nodes),
        compiled_at_ns=time.time_ns(),
        passes_ns=passes_ns - start_ns,
        lower_ns=lower_ns - passes_ns,
        compile_ns=compile_ns - lower_ns,
    )
    registry.add(graph)
    counters["neuron"]["compiled_graphs"] += 1
    counters["neuron"]["graphs_with_collectives"] += graph.has_collectives
    return executable


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Core ATen, plus layer norm taken apart, so that norms arrive as the elementwise ops and reductions they are.

    Attention stays one op: the decomposition of its CPU forward returns a log-sum-exp that its backward misreads.
    """
    table = {**core_aten_decompositions(), **get_decompositions([torch.ops.aten.native_layer_norm])}
    table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)
    return table


def _model_name(options: Mapping[str, Any]) -> str:
    allowed = ("model_name", "dynamic", *WITHOUT_EFFECT)
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise TrnscopeError(
            f"torch.compile(backend='neuron'): unknown option {unknown[0]!r}", f"Allowed: {', '.join(allowed)}."
        )
    if options.get("dynamic"):
        raise _dynamic_refused("options={'dynamic': True}")
    name = options.get("model_name", DEFAULT_MODEL_NAME)
    if not isinstance(name, str) or not name:
        raise TrnscopeError(
            f"torch.compile(backend='neuron'): option model_name is {name!r}", "It is a string that is not empty."
        )
    return name


def _dynamic_refused(what: str) -> TrnscopeError:
    return TrnscopeError(
        f"{what}: the neuron backend compiles static shapes only",
        "Compile with dynamic=False; every new shape then compiles a graph of its own.",
    )


def _specialise(inputs: Sequence[Any]) -> None:
    """Bind symbolic sizes to their current values.

    Dynamo turns a size symbolic when it sees a second value. Reading a symbol as a number makes it guard on that
    value, so that the graph becomes static and a third value compiles anew.
    """
    for value in inputs:
        if isinstance(value, torch.SymInt):
            int(value)
        elif isinstance(value, torch.Tensor):
            for size in (*value.shape, *value.stride(), value.storage_offset()):
                int(size)
