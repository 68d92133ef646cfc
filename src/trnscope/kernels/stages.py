"""What lowerings are made of: stages, each a loop over tiles (or over blocks of a matrix product).

A stage is a description, not yet rows: a fused graph drops the transfers of intermediate tensors from the stages of
its nodes and emits the rest as one program. All figures are totals over the logical core; the emitter splits them.
"""

from dataclasses import dataclass, field, replace

from trnscope.core.isa import SCALAR

TENSOR_COLUMNS = 128
"""Rows of the result that one TensorEngine instruction makes (stationary columns)."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor that a stage reads or writes.

    Attributes:
        index: position in the op's inputs or outputs.
        bytes: moved in all.
        run_bytes: contiguous bytes in HBM, the most that one descriptor covers.
        bandwidth_factor: share of the DMA rate that its layout reaches.
        billed_bytes: what the DMA engines are busy with; 0 for `bytes`.
        kept: read once by every core and held in SBUF (weights, scales).
        resident: already in SBUF (or staying there): no transfer.
    """

    index: int
    bytes: int
    run_bytes: int
    bandwidth_factor: float = 1.0
    billed_bytes: int = 0
    kept: bool = False
    resident: bool = False


@dataclass(frozen=True, slots=True)
class Pass:
    """One instruction per tile.

    Attributes:
        cycles_per_element: of the engine, per element and partition.
        flops_per_element: summed over all partitions.
        share: part of the tile's elements it works on (a reduced result is smaller than the tile).
        fixed_cycles: added to every instruction.
    """

    engine: int
    opcode: str
    cycles_per_element: float = 1.0
    flops_per_element: float = 1.0
    share: float = 1.0
    fixed_cycles: int = 0


@dataclass(frozen=True, slots=True)
class TiledStage:
    """Elements spread over the partitions, worked on tile by tile: load, passes, store.

    Attributes:
        label: region that the rows belong to.
        elements: points worked on.
        item_bytes: of the widest tensor at a point; sizes the tiles.
        units: how many parts it can be split into without cutting a row (elements for pointwise, rows for a norm).
        lanes: partitions in use.
        chunk: most elements per partition and tile; 0 for what `tile_bytes` allows.
        serial: an instruction starts when the previous one of its kind has drained.
        tile_latency_ns: fixed cost per tile, a chain of short dependent instructions.
        splittable: False: runs on one physical core.
    """

    label: str
    elements: int
    item_bytes: int
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    passes: tuple[Pass, ...]
    units: int
    lanes: int = 128
    chunk: int = 0
    serial: bool = False
    tile_latency_ns: float = 0.0
    splittable: bool = True

    def with_operands(self, inputs: tuple[Operand, ...], outputs: tuple[Operand, ...]) -> "TiledStage":
        return replace(self, inputs=inputs, outputs=outputs)


@dataclass(frozen=True, slots=True)
class MatmulStage:
    """`batch` products of [m, k] by [k, n] on the TensorEngine.

    Attributes:
        left, right: operands [m, k] and [k, n] (of all batches).
        extra: operands of the epilogue (bias, accumulated matrix), read once.
        passes: times the cycles of a 2-byte product (4 for fp32, 1/2 for fp8 where it is faster).
        left_transposed: the left operand comes with the contraction first: no transpose on the TensorEngine.
        epilogue: passes over the result while it leaves PSUM; the default is a plain copy by the ScalarEngine, as in
            profiles of compiled matmuls.
        taps: accumulating products per result over shifted inputs (positions of a convolution kernel); `k` is one
            of them, the left operand is read once.
    """

    label: str
    batch: int
    m: int
    k: int
    n: int
    item_bytes: int
    out_item_bytes: int
    left: Operand
    right: Operand
    output: Operand
    extra: tuple[Operand, ...] = ()
    passes: float = 1.0
    left_transposed: bool = False
    epilogue: tuple[Pass, ...] = field(default=(Pass(SCALAR, "ACTIVATE", 1.0, 0.0),))
    taps: int = 1

    @property
    def inputs(self) -> tuple[Operand, ...]:
        return (self.left, self.right, *self.extra)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        return (self.output,)

    def split_axis(self, n_cores: int) -> str:
        """What is divided among the physical cores: batch, rows or columns of the result, or none of them."""
        if n_cores == 1:
            return "none"
        if self.batch >= n_cores:
            return "batch"
        if self.m >= n_cores * TENSOR_COLUMNS or (self.m >= n_cores and self.m >= self.n):
            return "rows"
        return "columns" if self.n >= n_cores else "none"

    def divides(self, n_cores: int) -> bool:
        """Whether all cores get the same."""
        axis = self.split_axis(n_cores)
        size = {"batch": self.batch, "rows": self.m, "columns": self.n, "none": 1}[axis]
        return axis != "none" and size % n_cores == 0

    def with_operands(self, inputs: tuple[Operand, ...], outputs: tuple[Operand, ...]) -> "MatmulStage":
        return replace(self, left=inputs[0], right=inputs[1], extra=inputs[2:], output=outputs[0])


Stage = TiledStage | MatmulStage


@dataclass(frozen=True, slots=True)
class Lowering:
    """How one op is done.

    Attributes:
        kernel: family.
        confidence: validated, single-witness or unseen.
        stages: in order. Empty: nothing to do but an execution.
        launches: device programs that follow each other; their fixed parts add up.
    """

    kernel: str
    confidence: str
    stages: tuple[Stage, ...]
    launches: int = 1
