"""Which reader reads which format."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from trnscope.store.binary_files import import_neff, import_ntff, import_own_container
from trnscope.store.explorer_parquet import import_explorer_directory
from trnscope.store.framework_mapping import import_framework_mapping
from trnscope.store.memory_snapshot import import_memory_snapshot
from trnscope.store.neuron_profile import import_neuron_profile
from trnscope.store.source import SourceContext, SourceFacts
from trnscope.store.torch_trace import import_chrome

Reader = Callable[[SourceContext], SourceFacts]

READERS: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        "chrome-trace": import_chrome,
        "explorer-parquet": import_explorer_directory,
        "framework-mapping": import_framework_mapping,
        "memory-snapshot": import_memory_snapshot,
        "neff": import_neff,
        "neuron-profile": import_neuron_profile,
        "neuron-system": import_neuron_profile,
        "ntff": import_ntff,
        "trnscope-neff": import_own_container,
        "trnscope-ntff": import_own_container,
    }
)
"""Detected format -> reader."""
