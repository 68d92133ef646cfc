"""What lowerings ask the chip: figures by name, costs by element type."""

import functools
from dataclasses import dataclass

from trnscope.chips import Chip, Target
from trnscope.core.isa import SCALAR, VECTOR
from trnscope.graph.spec import TensorSpec
from trnscope.kernels.stages import Operand, Pass

HALF = frozenset({"bfloat16", "float16"})
FP8 = frozenset({"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"})
INTEGER = frozenset({"int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"})
COMPLEX = frozenset({"complex32", "complex64", "complex128"})
DOUBLE = frozenset({"float64", "complex128"})


@dataclass(frozen=True)
class Context:
    """A target with the chip's figures at hand; every cost of a lowering comes from here."""

    target: Target

    @property
    def chip(self) -> Chip:
        return self.target.spec

    def value(self, name: str) -> float:
        return self.chip.value(name)

    def dtype_factor(self, dtype: str) -> float:
        """How many times an arithmetic pass on fp32 lanes one on this type takes."""
        factor = 1.0
        if dtype in COMPLEX:
            factor *= 2.0
        if dtype in DOUBLE:
            factor *= self.value("float64_passes")
        return factor

    def tensor_tensor(self, dtypes: tuple[str, ...], flops: float = 1.0) -> Pass:
        """A VectorEngine pass over two tensors."""
        if all(d in HALF for d in dtypes):
            cycles = self.value("tensor_tensor_half_cycles") / self.value("fast_tensor_tensor_factor")
            cycles = max(cycles, 0.5)
        else:
            cycles = self.value("tensor_tensor_cycles") * max(self.dtype_factor(d) for d in dtypes)
        return Pass(VECTOR, "TENSOR_TENSOR", cycles, flops)

    def tensor_scalar(self, dtype: str, flops: float = 1.0) -> Pass:
        """A VectorEngine pass over one tensor, with a constant or a value per partition."""
        cycles = self.value("tensor_scalar_cycles") * self.dtype_factor(dtype)
        if dtype in HALF:
            cycles /= self.value("fast_copy_factor")
        return Pass(VECTOR, "TENSOR_SCALAR", cycles, flops)

    def copy(self, dtype: str) -> Pass:
        """A VectorEngine copy or cast."""
        cycles = self.value("tensor_scalar_cycles") * self.dtype_factor(dtype)
        if dtype in HALF:
            cycles /= self.value("fast_copy_factor")
        return Pass(VECTOR, "TENSOR_COPY", cycles, 0.0)

    def psum_copy(self, item_bytes: int) -> Pass:
        """A VectorEngine copy out of PSUM: half of the fast mode's gain for 2-byte types."""
        gain = max(1.0, self.value("fast_copy_factor") / 2) if item_bytes <= 2 else 1.0
        return Pass(VECTOR, "TENSOR_COPY", self.value("tensor_scalar_cycles") / gain, 0.0)

    def activation(self, dtype: str, flops: float = 1.0) -> Pass:
        """A ScalarEngine pass: func(scale * x + bias)."""
        return Pass(SCALAR, "ACTIVATE", self.value("activation_cycles") * self.dtype_factor(dtype), flops)

    def reduce(self, dtype: str, flops: float = 1.0) -> Pass:
        """A VectorEngine reduction along the free axis."""
        return Pass(VECTOR, "TENSOR_REDUCE", self.value("tensor_reduce_cycles") * self.dtype_factor(dtype), flops)

    def integer(self, count: float, opcode: str = "TENSOR_TENSOR", flops: float = 1.0) -> Pass:
        """`count` VectorEngine passes of integer arithmetic as one."""
        return Pass(VECTOR, opcode, count * self.value("integer_stretch"), flops)

    def alias_factor(self, stride_bytes: int) -> float:
        """Share of the DMA rate left when partitions lie this many bytes apart: large powers of two lose."""
        if stride_bytes <= 0:
            return 1.0
        power = (stride_bytes & -stride_bytes).bit_length() - 1
        factors = self.chip.values("dma_alias_factor")
        position = power - round(self.value("dma_alias_first"))
        return 1.0 if position < 0 else factors[min(position, len(factors) - 1)]

    def operand(self, index: int, tensor: TensorSpec, *, billed_item_bytes: int = 0) -> Operand:
        """A tensor that is streamed through once, with what its strides cost.

        Broadcast dimensions are read once. The run is what lies contiguous from the innermost dimension outwards.
        """
        run = contiguous_run(tensor)
        size = tensor.unique_bytes
        factor = 1.0
        if not tensor.is_contiguous and tensor.numel and run < tensor.numel:
            factor = self._layout_factor(tensor, run)
        elements = size // max(1, tensor.item_bytes)
        return Operand(
            index=index,
            bytes=size,
            run_bytes=max(1, run * tensor.item_bytes),
            bandwidth_factor=factor,
            billed_bytes=elements * billed_item_bytes if billed_item_bytes > tensor.item_bytes else 0,
        )

    def _layout_factor(self, tensor: TensorSpec, run: int) -> float:
        """Row views that start between alignment boundaries read more than they use."""
        if run <= 1:
            return 1.0
        item = tensor.item_bytes
        pitches = [s * item for n, s in zip(tensor.shape, tensor.strides, strict=True) if n > 1 and s >= run]
        start = tensor.offset * item
        granule = round(self.value("dma_element_run"))
        aligned = start % granule == 0 and all(p % granule == 0 for p in pitches) and (run * item) % granule == 0
        return 1.0 if aligned else self.value("dma_misaligned_factor")


@functools.lru_cache(maxsize=64)
def context_of(target: Target) -> Context:
    """The context of a target, one per process."""
    return Context(target)


def contiguous_run(tensor: TensorSpec) -> int:
    """Elements that lie contiguous, from the innermost dimension outwards; 1 when the innermost one is strided."""
    run = 1
    for n, stride in sorted(zip(tensor.shape, tensor.strides, strict=True), key=lambda pair: pair[1]):
        if n == 1 or stride == 0:
            continue
        if stride != run:
            break
        run *= n
    return max(1, run)


def widest(tensors: tuple[TensorSpec, ...]) -> int:
    """Largest element size among tensors, 4 when there are none."""
    return max((t.item_bytes for t in tensors), default=4)
