"""The compiled graphs of this process, for captures and metrics."""

import json
import math
import threading
from collections import Counter
from collections.abc import Set
from dataclasses import asdict, dataclass
from typing import Any

from trnscope.graph import GraphSpec


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """One graph as it was compiled. Times are real host time, Dynamo's and AOTAutograd's own excluded.

    Attributes:
        graph_id: counts up from 0 in the process.
        model_name: `options["model_name"]` of the `torch.compile` call.
        spec: what the device-time model reads; `spec.name` is the row in the profile.
        call_nodes: call nodes of the FX graph.
        compiled_at_ns: Unix time when compilation ended.
        passes_ns: rewriting the FX graph.
        lower_ns: from FX to the graph specification.
        compile_ns: from the specification to a program of the model.
    """

    graph_id: int
    model_name: str
    spec: GraphSpec
    call_nodes: int
    compiled_at_ns: int
    passes_ns: int
    lower_ns: int
    compile_ns: int

    @property
    def total_ns(self) -> int:
        return self.passes_ns + self.lower_ns + self.compile_ns

    @property
    def has_collectives(self) -> bool:
        return any(node.op.name.startswith("_c10d_functional") for node in self.spec.nodes)


class GraphRegistry:
    """Compiled graphs in order, and the numbers that name them. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._graphs: list[CompiledGraph] = []
        self._next_id = 0
        self._names: Counter[tuple[str, str]] = Counter()

    def reserve(self, model_name: str, kind: str) -> tuple[int, str]:
        """A new graph id and the name of its row: `<model>_<kind>_<n>`, where n counts per model and kind."""
        with self._lock:
            graph_id = self._next_id
            self._next_id += 1
            number = self._names[model_name, kind]
            self._names[model_name, kind] += 1
        return graph_id, f"{model_name}_{kind}_{number}"

    def add(self, graph: CompiledGraph) -> None:
        with self._lock:
            self._graphs.append(graph)

    def graphs(self) -> tuple[CompiledGraph, ...]:
        """All graphs that finished compiling, in that order. Dynamo bounds their number (its recompile limit)."""
        with self._lock:
            return tuple(self._graphs)


registry = GraphRegistry()
"""The one of this process."""


def graph_columns(launched: Set[str]) -> dict[str, list[Any]]:
    """The table `Graph` of a capture: the graphs whose names are given, in order of compilation."""
    graphs = [graph for graph in registry.graphs() if graph.spec.name in launched]
    return {
        "graph_id": [graph.graph_id for graph in graphs],
        "name": [graph.spec.name for graph in graphs],
        "kind": [graph.spec.kind for graph in graphs],
        "nodes": [graph.call_nodes for graph in graphs],
        "compile_ns": [graph.total_ns for graph in graphs],
        "graph_json": [json.dumps(_finite(asdict(graph.spec)), separators=(",", ":")) for graph in graphs],
    }


def _finite(value: Any) -> Any:
    """The value with numbers that JSON lacks (infinities, NaN, complex ones) as text."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value
