"""From an FX graph with fake tensors to the torch-free `GraphSpec` that the device-time model reads."""

import functools
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from trnscope.compiler.placement import Placement, attribute
from trnscope.errors import TrnscopeError
from trnscope.graph import GraphNode, GraphSpec, OpSpec, TensorSpec, ValueRef
from trnscope.graph.spec import Scalar


def lower(gm: GraphModule, name: str, kind: str, placement: Placement) -> GraphSpec:
    """Describe an ATen-level graph.

    Args:
        gm: graph whose nodes carry `meta["val"]`, as AOTAutograd leaves it, with static shapes only.
        name: name of the graph on the framework track.
        kind: inference, forward or backward.
        placement: which tensors are the device's.

    Inputs of the result are the device tensors among the placeholders in order, then the constants that the graph
    holds: they live in HBM and are read like inputs.

    Raises:
        TrnscopeError: a size is symbolic, or a node is not an op (its name is given).
    """
    return _Lowering(name, kind, placement).lower(gm)


def tensor_spec(tensor: torch.Tensor) -> TensorSpec:
    """Sizes, strides, dtype and offset of a real or fake strided tensor."""
    return TensorSpec(
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(_static(size) for size in tensor.shape),
        strides=tuple(_static(stride) for stride in tensor.stride()),
        offset=_static(tensor.storage_offset()),
    )


class _Lowering:
    """State of one graph's lowering: which value each FX node stands for."""

    def __init__(self, name: str, kind: str, placement: Placement) -> None:
        self.name = name
        self.kind = kind
        self.placement = placement
        self.inputs: list[TensorSpec] = []
        self.nodes: list[GraphNode] = []
        self.values: dict[Node, ValueRef | tuple[ValueRef | None, ...] | None] = {}
        self.outputs: tuple[ValueRef, ...] = ()
        self.mutated: set[int] = set()
        self.bases: dict[ValueRef, ValueRef] = {}

    def lower(self, gm: GraphModule) -> GraphSpec:
        for node in gm.graph.find_nodes(op="placeholder"):
            self._add_input(node, node.meta.get("val"))
        constants: dict[str, ValueRef] = {}
        for node in gm.graph.find_nodes(op="get_attr"):
            if str(node.target) in self.placement.constants and str(node.target) not in constants:
                constants[str(node.target)] = ValueRef(-1, len(self.inputs))
                self.inputs.append(tensor_spec(attribute(gm, node)))
            self.values[node] = constants.get(str(node.target))
        for node in gm.graph.nodes:
            if node.op == "call_function":
                self._add_call(node)
            elif node.op == "output":
                self.outputs = tuple(ref for ref in map(self._ref, _flat(node.args[0])) if ref is not None)
        return GraphSpec(
            self.name,
            self.kind,
            tuple(self.inputs),
            tuple(self.nodes),
            self.outputs,
            tuple(sorted(self.mutated)),
        )

    def _add_input(self, node: Node, value: object) -> None:
        if self.placement.on_device(value):
            self.values[node] = ValueRef(-1, len(self.inputs))
            self.inputs.append(tensor_spec(value))
        else:
            self.values[node] = None

    def _ref(self, argument: object) -> ValueRef | None:
        if not isinstance(argument, Node):
            return None
        value = self.values.get(argument)
        return value if isinstance(value, ValueRef) else None

    def _add_call(self, node: Node) -> None:
        if node.target is operator.getitem:
            source, index = node.args
            value = self.values[source] if isinstance(source, Node) else None
            self.values[node] = value[index] if isinstance(value, tuple) and isinstance(index, int) else None
        elif isinstance(node.target, torch._ops.OperatorBase):
            self._add_op(node, node.target)
        elif isinstance(node.meta.get("val"), int):
            self.values[node] = None  # arithmetic on sizes: the host's, and static
        else:
            raise TrnscopeError(
                f"graph {self.name}: cannot lower {node.target!r} (node {node.name})",
                "Only PyTorch operators can run in a compiled graph; move this call out of the compiled function.",
            )

    def _add_op(self, node: Node, target: torch._ops.OperatorBase) -> None:
        inputs: list[TensorSpec] = []
        sources: list[ValueRef] = []
        mutated: list[int] = []
        scalars: list[tuple[str, Scalar]] = []
        owners: dict[str | None, ValueRef] = {}
        for argument in _bind(node, target):
            refs = [ref for ref in map(self._ref, _flat(argument.value)) if ref is not None]
            if argument.written:
                mutated.extend(range(len(inputs), len(inputs) + len(refs)))
            inputs.extend(map(self._spec_of, refs))
            sources.extend(refs)
            if argument.alias_set is not None and refs:
                owners.setdefault(argument.alias_set, refs[0])
                owners.setdefault(_UNNAMED, refs[0])
            if not refs and argument.is_scalar:
                scalars.append((argument.name, _scalar(argument.value)))
        results = node.meta.get("val")
        outputs = [value for value in _flat(results) if self.placement.on_device(value)]
        number = len(self.nodes)
        self._track(node, results, number)
        aliases = _output_alias_sets(target, len(outputs))
        shared = {i: owners[alias_set] for i, alias_set in enumerate(aliases) if alias_set in owners}
        self.bases.update({ValueRef(number, i): self._base(owner) for i, owner in shared.items()})
        op = OpSpec(
            name=_name(target),
            inputs=tuple(inputs),
            outputs=tuple(map(tensor_spec, outputs)),
            scalars=tuple(scalars),
            mutated=tuple(mutated),
            aliased=tuple(shared),
        )
        is_view = not mutated and len(outputs) > 0 and len(shared) == len(outputs)
        self.nodes.append(GraphNode(op, tuple(sources), is_view))
        written = (self._base(sources[i]) for i in mutated)
        self.mutated.update(base.index for base in written if base.node < 0)

    def _track(self, node: Node, results: object, number: int) -> None:
        if self.placement.on_device(results):
            self.values[node] = ValueRef(number, 0)
        elif isinstance(results, tuple | list):
            count = 0
            refs: list[ValueRef | None] = []
            for value in results:
                is_tensor = self.placement.on_device(value)
                refs.append(ValueRef(number, count) if is_tensor else None)
                count += is_tensor
            self.values[node] = tuple(refs)
        else:
            self.values[node] = None

    def _spec_of(self, ref: ValueRef) -> TensorSpec:
        return self.inputs[ref.index] if ref.node < 0 else self.nodes[ref.node].op.outputs[ref.index]

    def _base(self, ref: ValueRef) -> ValueRef:
        """The value that owns the storage of `ref`."""
        return self.bases.get(ref, ref)


def _flat(value: object) -> Iterable[object]:
    """Leaves of nested lists and tuples, in order."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _static(size: Any) -> int:
    """A size as a number.

    Raises:
        TrnscopeError: it is symbolic and has no known value.
    """
    if isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None:
        raise TrnscopeError(
            f"the neuron backend compiles static shapes only; this graph has the symbolic size {size}",
            "Compile with dynamic=False and keep ops whose result size depends on values out of the function.",
        )
    return int(size)


class _Parameter(NamedTuple):
    """What a schema says about one argument. `role` is tensor, scalar or placement."""

    name: str
    default: object
    role: str
    written: bool
    alias_set: str | None


class _Argument(NamedTuple):
    """An argument of a call beside what its schema says about it."""

    name: str
    value: object
    is_scalar: bool
    written: bool
    alias_set: str | None


def _bind(node: Node, target: torch._ops.OperatorBase) -> list[_Argument]:
    """All arguments of a call in the schema's order, defaults filled in."""
    if not isinstance(target, torch._ops.OpOverload):
        values = (*node.args, *node.kwargs.values())
        return [
            _Argument(f"arg{i}", value, is_scalar=isinstance(value, _NUMBER), written=False, alias_set=None)
            for i, value in enumerate(values)
        ]
    bound = []
    for i, (name, default, role, written, alias_set) in enumerate(_parameters(target)):
        value = node.args[i] if i < len(node.args) else node.kwargs.get(name, default)
        is_scalar = role == "scalar" or (role == "tensor" and isinstance(value, _NUMBER))
        bound.append(_Argument(name, value, is_scalar, written, alias_set))
    return bound


@functools.cache
def _parameters(target: torch._ops.OpOverload) -> tuple[_Parameter, ...]:
    parameters = []
    for i, argument in enumerate(target._schema.arguments):
        alias = argument.alias_info
        alias_set = _alias_set(alias)
        if i == 0 and target is torch.ops.aten._unsafe_view.default:  # its schema hides that the result is a view
            alias_set = _UNNAMED
        role = _role(str(argument.real_type), argument.name)
        written = alias is not None and alias.is_write
        parameters.append(_Parameter(argument.name, argument.default_value, role, written, alias_set))
    return tuple(parameters)


_NUMBER = bool | int | float | complex | str


def _role(type_name: str, name: str) -> str:
    if "Tensor" in type_name:
        return "tensor"
    # where a tensor is placed does not change the lowering
    placement = name == "pin_memory" or any(word in type_name for word in ("Device", "Layout", "Generator"))
    return "placement" if placement else "scalar"


def _scalar(value: Any) -> Scalar:
    """A non-tensor argument as the specification spells it: dtypes and formats by name, lists as tuples."""
    if value is None or isinstance(value, _NUMBER):
        return value
    if isinstance(value, torch.SymInt):
        return _static(value)
    if isinstance(value, Node):
        return _scalar(value.meta["val"])
    if isinstance(value, tuple | list):
        return tuple(_scalar(item) for item in value)
    return str(value).removeprefix("torch.")


def _name(target: torch._ops.OperatorBase) -> str:
    if isinstance(target, torch._ops.OpOverload):
        namespace = target._schema.name
        return namespace if target._overloadname == "default" else f"{namespace}.{target._overloadname}"
    return f"higher_order::{target.name()}"


_UNNAMED = ""
"""Alias set of tensor lists, whose name the schema's Python binding does not show: the first aliased argument's."""


def _alias_set(alias: Any) -> str | None:
    return None if alias is None else min(alias.before_set, default=_UNNAMED)


def _output_alias_sets(target: torch._ops.OperatorBase, count: int) -> list[str | None]:
    """The alias set of each tensor among the results; None for a fresh tensor."""
    if not isinstance(target, torch._ops.OpOverload):
        return [None] * count
    if target is torch.ops.aten._unsafe_view.default:
        return [_UNNAMED]
    sets = [_alias_set(result.alias_info) for result in target._schema.returns]
    return sets * count if len(sets) == 1 else sets  # a single result may be a list of views, such as split's
