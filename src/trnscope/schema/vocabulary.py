"""Closed vocabularies. A value outside of these in a table or a JSON answer is a bug."""

from typing import Final

ENGINES: Final = ("tensor", "vector", "scalar", "gpsimd", "sync")
"""The five engines of a NeuronCore: PE, DVE, ACT, Pool and SP in the hardware's own abbreviations."""

RESOURCES: Final = (*ENGINES, "dma")

BOUNDS: Final = ("compute", "memory", "overhead", "latency", "collective", "unknown")

STALL_REASONS: Final = ("issue", "data", "buffer", "ring", "bandwidth", "semaphore", "barrier")

SEVERITIES: Final = {"high": 0.20, "medium": 0.05, "low": 0.0}
"""Severity -> least share of the window at stake."""

RULES: Final = (
    "unfused-chain",
    "compile-would-fuse",
    "host-bound",
    "sync-in-loop",
    "graph-break",
    "recompile",
    "fp32-matmul",
    "missed-fast-mode",
    "tensor-engine-underused",
    "skinny-matmul",
    "vector-bound",
    "small-dma",
    "strided-dma",
    "spill",
    "layout-copies",
    "cast-chain",
    "host-copy",
    "cpu-fallback",
    "loop-optimizer",
    "data-loading",
    "first-execution",
    "throttling",
    "unaligned-size",
    "core-imbalance",
    "collective-exposed",
    "collective-skew",
    "memory-pressure",
    "unreliable-data",
)

BREAKDOWN: Final = (
    "device_compute",
    "device_dma",
    "collective",
    "host_dispatch",
    "host_python",
    "sync",
    "copy",
    "idle_other",
)
"""Keys of a time breakdown; their values sum to the window exactly."""

CHIPS: Final = ("trn1", "inf2", "trn2", "trn3")

FIGURE_KINDS: Final = ("spec", "measured", "fitted", "assumed")
"""Where a chip figure comes from: a vendor document, a measurement, a fit to data, or a stated guess."""

HOST_MODES: Final = ("measured", "modelled", "paced")
"""How host time enters the virtual clock. `paced` passes host time through unchanged: it places device work beside
host events that nobody maps to virtual time (a plain `profile()` without a NeuronConfig)."""

COMPUTE_MODES: Final = ("values", "shapes")
