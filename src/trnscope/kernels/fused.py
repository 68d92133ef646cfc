"""Compiled graphs: the stages of all nodes as one program that reads its inputs and writes its outputs once.

Neighbouring tiled stages become one loop over tiles whose passes follow each other while the tile is in SBUF; matrix
products stay stages of their own. Intermediate tensors stay in SBUF. That they fit is assumed here and not checked:
spilling is not modelled yet.
"""

import math
from dataclasses import dataclass, field, replace

from trnscope.graph.spec import GraphNode, GraphSpec, OpSpec, ValueRef
from trnscope.kernels import pointwise
from trnscope.kernels.context import INTEGER, Context
from trnscope.kernels.registry import lower
from trnscope.kernels.stages import Lowering, Operand, Pass, Stage, TiledStage

CONFIDENCE_ORDER = ("validated", "single-witness", "unseen")

FOLDING = frozenset(
    {("TENSOR_SCALAR", "TENSOR_SCALAR"), ("TENSOR_SCALAR", "ACTIVATE"), ("TENSOR_SCALAR_TWICE", "ACTIVATE")}
)

RESIDENT = 1000
"""Operand numbers from here on stand for intermediate tensors."""


@dataclass(slots=True)
class _State:
    """What has been read and written while the graph's nodes are walked."""

    graph: GraphSpec
    roots: dict[ValueRef, ValueRef]
    returned: set[ValueRef]
    last_writer: dict[ValueRef, tuple[int, int]]
    ids: dict[ValueRef, int] = field(default_factory=dict)
    read: set[ValueRef] = field(default_factory=set)

    def resident(self, root: ValueRef, operand: Operand) -> Operand:
        return replace(operand, index=RESIDENT + self.ids.setdefault(root, len(self.ids)), resident=True)


def lower_graph(graph: GraphSpec, context: Context) -> Lowering:
    """Stages of all nodes without the transfers of intermediate tensors and of inputs that were read before."""
    roots = _roots(graph)
    returned = {roots[value] for value in graph.outputs} | {ValueRef(-1, i) for i in graph.mutated}
    state = _State(graph, roots, returned, _last_writers(graph, roots))
    stages: list[Stage] = []
    confidence = "validated"
    for position, node in enumerate(graph.nodes):
        if node.is_view:
            continue
        lowering = lower(node.op, context)
        confidence = max(confidence, lowering.confidence, key=CONFIDENCE_ORDER.index)
        own = list(lowering.stages)
        for number, stage in enumerate(own):
            last = number == len(own) - 1
            inputs = tuple(_input(o, node, state) for o in stage.inputs)
            outputs = tuple(_output(o, position, state, last=last) for o in stage.outputs)
            moved = stage.with_operands(inputs, outputs)
            if isinstance(moved, TiledStage):
                moved = _per_partition(moved, node, context)
            _append(stages, moved, chained=number == 0 and _continues(position, node, state))
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


def _last_writers(graph: GraphSpec, roots: dict[ValueRef, ValueRef]) -> dict[ValueRef, tuple[int, int]]:
    """(node, output) that writes each root last: the one whose result goes to memory."""
    last: dict[ValueRef, tuple[int, int]] = {}
    for position, node in enumerate(graph.nodes):
        if not node.is_view:
            if node.op.outputs:
                written = [roots[ValueRef(position, index)] for index in range(len(node.op.outputs))]
            else:
                written = [roots[node.sources[i]] for i in node.op.mutated if i < len(node.sources)]
            last.update((root, (position, index)) for index, root in enumerate(written))
    return last


def _input(operand: Operand, node: GraphNode, state: _State) -> Operand:
    if operand.resident or operand.index >= len(node.sources):
        return operand
    root = state.roots[node.sources[operand.index]]
    if root.node < 0 and root not in state.read:
        state.read.add(root)
        return replace(operand, index=root.index)
    return state.resident(root, operand)


def _output(operand: Operand, position: int, state: _State, *, last: bool) -> Operand:
    if operand.resident:
        return operand
    root = _written_root(position, operand.index, state)
    if root is None:
        return replace(operand, resident=True)
    if last and root in state.returned and state.last_writer.get(root) == (position, operand.index):
        return operand
    return state.resident(root, operand)


def _written_root(position: int, index: int, state: _State) -> ValueRef | None:
    """What an output operand is stored in; an op without results writes its mutated arguments."""
    root = state.roots.get(ValueRef(position, index))
    node = state.graph.nodes[position]
    if root is None and index < len(node.op.mutated) and node.op.mutated[index] < len(node.sources):
        root = state.roots[node.sources[node.op.mutated[index]]]
    return root


def _per_partition(stage: TiledStage, node: GraphNode, context: Context) -> TiledStage:
    """Passes that get cheaper because the graph shows what one op alone does not.

    A second tensor with one value per row is a constant per partition (tensor_scalar); the product of a tensor with
    itself is the ScalarEngine's square.
    """
    op = node.op
    if pointwise.base(op) not in pointwise.ARITHMETIC or len(op.inputs) != 2 or len(stage.passes) != 1:
        return stage
    if any(t.dtype in INTEGER for t in op.inputs):
        return stage
    first, second = op.inputs
    if pointwise.base(op) == "mul" and node.sources[0] == node.sources[1]:
        return replace(stage, passes=(context.activation(first.dtype),))
    for one, other in ((first, second), (second, first)):
        per_row = one.numel < other.numel and bool(one.shape) and (one.shape[-1] == 1 or one.strides[-1] == 0)
        if per_row and one.numel * max(1, other.shape[-1]) == other.numel:
            return replace(stage, passes=(context.tensor_scalar(other.dtype),))
    return stage


def _continues(position: int, node: GraphNode, state: _State) -> bool:
    """Whether a node works on the result of the node before it and nothing else does."""
    if position == 0 or not state.graph.nodes[position - 1].op.outputs:
        return False
    root = state.roots[ValueRef(position - 1, 0)]
    uses = sum(state.roots[source] == root for other in state.graph.nodes for source in other.sources)
    return uses == 1 and root not in state.returned and any(state.roots[s] == root for s in node.sources)


def _fold(first: Pass, second: Pass) -> Pass | None:
    """Two chained passes as one instruction where the hardware has it.

    An activation computes func(scale * x + bias), a tensor_scalar two operations with constants.
    """
    if (first.opcode, second.opcode) not in FOLDING or first.share != second.share:
        return None
    cycles = max(first.cycles_per_element, second.cycles_per_element)
    opcode = "TENSOR_SCALAR_TWICE" if second.opcode == "TENSOR_SCALAR" else second.opcode
    flops = first.flops_per_element + second.flops_per_element
    return replace(second, opcode=opcode, cycles_per_element=cycles, flops_per_element=flops)


def _append(stages: list[Stage], stage: Stage, *, chained: bool) -> None:
    """Add a stage, joined to the previous one where both are loops over tiles."""
    previous = stages[-1] if stages else None
    if isinstance(previous, TiledStage) and isinstance(stage, TiledStage) and _joins(previous, stage):
        stages[-1] = _join(previous, stage, chained=chained)
    else:
        stages.append(stage)


def _joins(a: TiledStage, b: TiledStage) -> bool:
    same = (a.lanes, a.serial, a.splittable) == (b.lanes, b.serial, b.splittable)
    return same and bool(a.elements) and bool(b.elements) and not (a.serial or b.serial)


def _join(a: TiledStage, b: TiledStage, *, chained: bool) -> TiledStage:
    elements = max(a.elements, b.elements)
    produced = {o.index for o in a.outputs if o.resident}
    held = {o.index for o in a.inputs if o.resident}
    inputs = a.inputs + tuple(o for o in b.inputs if not (o.resident and o.index in produced | held))
    kept_outputs = {o.index for o in b.outputs if o.resident}
    outputs = tuple(o for o in a.outputs if not (o.resident and o.index in kept_outputs)) + b.outputs
    first, second = _scaled(a, elements), _scaled(b, elements)
    folded = _fold(first[-1], second[0]) if chained and first and second else None
    passes = first + second if folded is None else (*first[:-1], folded, *second[1:])
    chunks = [s.chunk for s in (a, b) if s.chunk]
    return TiledStage(
        label=a.label if a.label == b.label else f"{a.label}+{b.label}" if len(a.label) < 60 else a.label,
        elements=elements,
        item_bytes=max(a.item_bytes, b.item_bytes),
        inputs=inputs,
        outputs=outputs,
        passes=passes,
        units=math.gcd(a.units, b.units) if a.units != b.units else a.units,
        lanes=a.lanes,
        chunk=min(chunks) if chunks else 0,
        tile_latency_ns=a.tile_latency_ns + b.tile_latency_ns,
    )


def _scaled(stage: TiledStage, elements: int) -> tuple[Pass, ...]:
    """Passes of a smaller stage in tiles of a larger one: they work on a share of the tile."""
    share = stage.elements / elements
    if share == 1.0:
        return stage.passes
    return tuple(replace(p, share=p.share * share, flops_per_element=p.flops_per_element * share) for p in stage.passes)
