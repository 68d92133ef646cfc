"""Compiled graphs: the stages of all nodes as one program that reads its inputs and writes its outputs once.

Intermediate tensors stay in SBUF. That they fit is assumed here and not checked: spilling is not modelled yet.
"""

from dataclasses import replace

from trnscope.graph.spec import GraphSpec, OpSpec, ValueRef
from trnscope.kernels.context import Context
from trnscope.kernels.registry import lower
from trnscope.kernels.stages import Lowering, Operand, Stage

CONFIDENCE_ORDER = ("validated", "single-witness", "unseen")


def lower_graph(graph: GraphSpec, context: Context) -> Lowering:
    """Stages of all nodes; the transfers of intermediate tensors, and of inputs that were read before, are dropped."""
    returned = set(graph.outputs)
    roots = _roots(graph)
    returned_roots = {roots[value] for value in returned}
    ids: dict[ValueRef, int] = {}
    read: set[ValueRef] = set()
    written: set[ValueRef] = set()
    stages: list[Stage] = []
    confidence = "validated"
    for position, node in enumerate(graph.nodes):
        if node.is_view:
            continue
        lowering = lower(node.op, context)
        confidence = max(confidence, lowering.confidence, key=CONFIDENCE_ORDER.index)
        for stage in lowering.stages:
            inputs = tuple(
                _input(operand, roots[node.sources[operand.index]], ids, read)
                if operand.index < len(node.sources)
                else operand
                for operand in stage.inputs
            )
            outputs = tuple(
                _output(operand, ValueRef(position, operand.index), roots, returned_roots, graph, ids, written)
                for operand in stage.outputs
            )
            stages.append(stage.with_operands(inputs, outputs))
    return Lowering("fused", "single-witness" if confidence == "validated" else confidence, tuple(stages))


def _roots(graph: GraphSpec) -> dict[ValueRef, ValueRef]:
    """What each value is stored in: views and in-place results belong to their source."""
    roots = {ValueRef(-1, i): ValueRef(-1, i) for i in range(len(graph.inputs))}
    for position, node in enumerate(graph.nodes):
        for index in range(len(node.op.outputs)):
            value = ValueRef(position, index)
            roots[value] = value
            if node.is_view and node.sources:
                roots[value] = roots[node.sources[0]]
            elif index in node.op.aliased and (source := _aliased_source(node.op, index)) is not None:
                roots[value] = roots[node.sources[source]]
    return roots


def _aliased_source(op: OpSpec, output: int) -> int | None:
    position = op.aliased.index(output)
    return op.mutated[position] if position < len(op.mutated) else None


def _input(operand: Operand, root: ValueRef, ids: dict[ValueRef, int], read: set[ValueRef]) -> Operand:
    if root.node < 0 and root not in read:
        read.add(root)
        ids.setdefault(root, len(ids))
        return replace(operand, index=root.index)
    return replace(operand, index=1000 + ids.setdefault(root, len(ids)), resident=True)


def _output(
    operand: Operand,
    value: ValueRef,
    roots: dict[ValueRef, ValueRef],
    returned: set[ValueRef],
    graph: GraphSpec,
    ids: dict[ValueRef, int],
    written: set[ValueRef],
) -> Operand:
    root = roots[value]
    mutated_input = root.node < 0 and root.index in graph.mutated
    if (root in returned or mutated_input) and root not in written:
        written.add(root)
        return replace(operand, index=operand.index)
    return replace(operand, index=1000 + ids.setdefault(root, len(ids)), resident=True)
