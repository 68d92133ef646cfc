"""From the 32-bit signature of a record to the op or graph it stands for."""

import threading
from typing import Final, Protocol

from trnscope.graph.spec import GraphSpec, OpSpec, Scalar, TensorSpec

GRAPH_BASE: Final = 1 << 31
"""Signatures from here on are compiled graphs; below are ops, numbered by the extension from 1."""

TensorTuple = tuple[str, tuple[int, ...], tuple[int, ...], int]
SignatureTuple = tuple[
    str,
    tuple[TensorTuple, ...],
    tuple[TensorTuple, ...],
    tuple[tuple[str, Scalar], ...],
    tuple[int, ...],
    tuple[int, ...],
]


class SignatureSource(Protocol):
    """The part of the device extension that knows op signatures."""

    def describe_signature(self, signature: int) -> SignatureTuple | None: ...

    def signature_count(self) -> int: ...

    def reset_signatures(self) -> None: ...


def op_spec(described: SignatureTuple) -> OpSpec:
    """The specification behind the extension's description of a signature."""
    name, inputs, outputs, scalars, mutated, aliased = described
    return OpSpec(
        name=name,
        inputs=tuple(TensorSpec(*tensor) for tensor in inputs),
        outputs=tuple(TensorSpec(*tensor) for tensor in outputs),
        scalars=scalars,
        mutated=mutated,
        aliased=aliased,
    )


class GraphRegistry:
    """Compiled graphs of this process; bounded by the compiler's own recompile limit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._graphs: list[GraphSpec] = []

    def add(self, spec: GraphSpec) -> int:
        with self._lock:
            self._graphs.append(spec)
            return GRAPH_BASE + len(self._graphs) - 1

    def get(self, signature: int) -> GraphSpec | None:
        index = signature - GRAPH_BASE
        return self._graphs[index] if 0 <= index < len(self._graphs) else None


_graphs: Final = GraphRegistry()


def register_graph(spec: GraphSpec) -> int:
    """Gives a compiled graph its signature: the one to launch it with (`_C.GraphLaunch`)."""
    return _graphs.add(spec)


def spec_of(source: SignatureSource, signature: int) -> OpSpec | GraphSpec | None:
    """What a record's signature stands for; None when it is 0 or was forgotten."""
    if signature >= GRAPH_BASE:
        return _graphs.get(signature)
    described = source.describe_signature(signature)
    return None if described is None else op_spec(described)
