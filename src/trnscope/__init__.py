"""trnscope: why a PyTorch model is slow on AWS Trainium, proved in a trace, with or without a chip.

`trnscope.open(path)` opens any trace, capture or import directory (`trnscope.store.trace.Trace`).
"""

from typing import TYPE_CHECKING, Any

from trnscope._version import __version__
from trnscope.errors import TrnscopeError

if TYPE_CHECKING:
    from trnscope.store.trace import open_trace as open  # noqa: A004

__all__ = ["TrnscopeError", "__version__", "open"]


def __getattr__(name: str) -> Any:
    # the store imports numba and DuckDB, which most users of the package do not need
    if name == "open":
        from trnscope.store.trace import open_trace

        return open_trace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
