"""trnscope: why a PyTorch model is slow on AWS Trainium, proved in a trace, with or without a chip."""

from trnscope._version import __version__
from trnscope.errors import TrnscopeError

__all__ = ["TrnscopeError", "__version__"]
