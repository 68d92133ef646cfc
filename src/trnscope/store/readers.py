"""Which reader reads which format."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from trnscope.store.source import SourceContext, SourceFacts
from trnscope.store.torch_trace import import_chrome

Reader = Callable[[SourceContext], SourceFacts]

READERS: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        "chrome-trace": import_chrome,
    }
)
"""Detected format -> reader."""
