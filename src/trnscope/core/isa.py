"""Names of what a physical core consists of: engines, DMA rings, memories, opcodes."""

from typing import Final

from trnscope.schema.vocabulary import ENGINES, STALL_REASONS

TENSOR: Final = 0
VECTOR: Final = 1
SCALAR: Final = 2
GPSIMD: Final = 3
SYNC: Final = 4
N_ENGINES: Final = len(ENGINES)

RING_IN: Final = N_ENGINES
"""Ring of the tiles that are read."""
RING_OUT: Final = N_ENGINES + 1
"""Ring of the tiles that are written."""
RING_CONST: Final = N_ENGINES + 2
"""Ring of what is read once and kept: weights, scales, indices."""
N_RINGS: Final = 3
N_RESOURCES: Final = N_ENGINES + N_RINGS

RING_NAMES: Final = ("qInput", "qOutput", "qData")
RING_TYPES: Final = ("input", "output", "data")

HBM: Final = 0
SBUF: Final = 1
PSUM: Final = 2
SPACES: Final = ("HBM", "SBUF", "PSUM")

OPCODES: Final = (
    "DMA",
    "MATMUL",
    "TRANSPOSE",
    "ACTIVATE",
    "TENSOR_TENSOR",
    "TENSOR_SCALAR",
    "TENSOR_SCALAR_TWICE",
    "TENSOR_REDUCE",
    "TENSOR_COPY",
    "SELECT",
    "RECIPROCAL",
    "BN_STATS",
    "BN_AGGR",
    "SCAN",
    "MAX8",
    "FIND_INDEX8",
    "MATCH_REPLACE",
    "MEMSET",
    "IOTA",
    "RNG",
    "GATHER",
    "EVENT_SEMAPHORE",
    "CUSTOM",
)
"""Opcodes of modelled programs; CUSTOM stands for a software routine whose instructions are unknown."""

OPCODE_ID: Final = {name: index for index, name in enumerate(OPCODES)}

ISSUE, DATA, BUFFER, RING, BANDWIDTH, SEMAPHORE, BARRIER = range(len(STALL_REASONS))
"""Stall reasons, as indices into `schema.vocabulary.STALL_REASONS`."""
