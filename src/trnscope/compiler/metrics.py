"""Compilation metrics with the names of the real backend."""

from dataclasses import dataclass

from trnscope.compiler.registry import CompiledGraph, registry


@dataclass(frozen=True, slots=True)
class NeuronCompilationMetrics:
    """Metrics of one compiled graph. `timestamp` is Unix time in seconds; `_us` values are host microseconds."""

    graph_id: int
    graph_name: str
    model_name: str
    has_collectives: bool
    graph_node_count: int
    timestamp: float
    torch_neuronx_fx_passes_us: int
    torch_neuronx_lower_us: int
    torch_neuronx_compile_us: int


_reset_count = 0
"""How many graphs had been compiled at the last reset."""


def get_dynamo_metrics() -> list[NeuronCompilationMetrics]:
    """One entry per graph compiled since the start or `reset_dynamo_metrics`, in the order they finished."""
    return [_metrics(graph) for graph in registry.graphs()[_reset_count:]]


def reset_dynamo_metrics() -> None:
    """Start the list anew; compiled graphs go on working and stay known to captures."""
    global _reset_count
    _reset_count = len(registry.graphs())


def _metrics(graph: CompiledGraph) -> NeuronCompilationMetrics:
    return NeuronCompilationMetrics(
        graph_id=graph.graph_id,
        graph_name=graph.spec.name,
        model_name=graph.model_name,
        has_collectives=graph.has_collectives,
        graph_node_count=graph.call_nodes,
        timestamp=graph.compiled_at_ns / 1e9,
        torch_neuronx_fx_passes_us=graph.passes_ns // 1000,
        torch_neuronx_lower_us=graph.lower_ns // 1000,
        torch_neuronx_compile_us=graph.compile_ns // 1000,
    )
