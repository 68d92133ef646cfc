"""Specifications of ops and graphs: the only thing a kernel needs to know to lower them.

They are plain, hashable and free of torch, so that the model works on captures of any machine.
"""

import math
from dataclasses import dataclass, field

ITEM_BYTES = {
    "float64": 8, "float32": 4, "bfloat16": 2, "float16": 2,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
    "complex32": 4, "complex64": 8, "complex128": 16,
}  # fmt: skip
"""Bytes of one element, by torch's dtype name without its prefix."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A strided tensor.

    Attributes:
        dtype: torch's name without prefix, e.g. `bfloat16`.
        shape: sizes, in elements.
        strides: in elements; 0 for broadcast dimensions.
        offset: storage offset in elements.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def item_bytes(self) -> int:
        return ITEM_BYTES[self.dtype]

    @property
    def bytes(self) -> int:
        """Bytes of all elements, broadcast ones counted."""
        return self.numel * self.item_bytes

    @property
    def unique_bytes(self) -> int:
        """Bytes of distinct elements: broadcast (stride 0) dimensions count once."""
        distinct = math.prod(n for n, stride in zip(self.shape, self.strides, strict=True) if stride != 0)
        return distinct * self.item_bytes if self.numel else 0

    @property
    def is_contiguous(self) -> bool:
        expected = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != expected:
                return False
            expected *= n
        return True


Scalar = bool | int | float | complex | str | None | tuple["Scalar", ...]


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One op with all that its lowering depends on.

    Attributes:
        name: aten name with overload, e.g. `aten::mul.Tensor` (`aten::mean.dim`; no overload: `aten::relu`).
        inputs: device tensors among the arguments in order, tensor lists flattened.
        outputs: results in order (in-place and out= results included).
        scalars: (argument name, value) of the other arguments that were given or have a default.
        mutated: positions in `inputs` that are written.
        aliased: positions in `outputs` that alias an input (in-place, out=, views).
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    scalars: tuple[tuple[str, Scalar], ...] = ()
    mutated: tuple[int, ...] = ()
    aliased: tuple[int, ...] = ()

    @property
    def base_name(self) -> str:
        """Name without namespace and overload: `aten::mul.Tensor` -> `mul`."""
        return self.name.rpartition("::")[2].partition(".")[0]

    def scalar(self, name: str, default: Scalar = None) -> Scalar:
        for key, value in self.scalars:
            if key == name:
                return value
        return default


@dataclass(frozen=True, slots=True)
class ValueRef:
    """A value of a graph: output `index` of node `node`, or graph input `index` when `node` is -1."""

    node: int
    index: int


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One op of a graph. `sources` says where each of `op.inputs` comes from."""

    op: OpSpec
    sources: tuple[ValueRef, ...]
    is_view: bool = False


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """A compiled graph: nodes in topological order.

    Attributes:
        name: as on the framework track.
        kind: inference, forward or backward.
        inputs: device tensors given at each launch.
        outputs: which values are returned.
        mutated: positions in `inputs` that are written.
    """

    name: str
    kind: str
    inputs: tuple[TensorSpec, ...]
    nodes: tuple[GraphNode, ...]
    outputs: tuple[ValueRef, ...]
    mutated: tuple[int, ...] = field(default=())

    def spec_of(self, value: ValueRef) -> TensorSpec:
        return self.inputs[value.index] if value.node < 0 else self.nodes[value.node].op.outputs[value.index]
