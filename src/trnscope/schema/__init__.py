"""The contract between the parts of trnscope.

Records, tables, capture layout, vocabularies and JSON shapes, with their versions. This package holds definitions
only: it imports nothing from the rest of the project, and torch never.
"""

from trnscope.schema.answers import Answer, envelope
from trnscope.schema.capture import CaptureLayout, CaptureManifest
from trnscope.schema.columns import Column, Table
from trnscope.schema.records import LOG_DTYPE, MEMORY_EVENT_DTYPE, TENSOR_REF_DTYPE, Flag, Kind, Origin, Phase
from trnscope.schema.tables import TABLES
from trnscope.schema.version import PROFILE_SCHEMA_VERSION, SCHEMA_VERSION

__all__ = [
    "LOG_DTYPE",
    "MEMORY_EVENT_DTYPE",
    "PROFILE_SCHEMA_VERSION",
    "SCHEMA_VERSION",
    "TABLES",
    "TENSOR_REF_DTYPE",
    "Answer",
    "CaptureLayout",
    "CaptureManifest",
    "Column",
    "Flag",
    "Kind",
    "Origin",
    "Phase",
    "Table",
    "envelope",
]
