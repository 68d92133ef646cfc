"""Versions of what is written to disk."""

SCHEMA_VERSION = "1.0.0"
"""Version of trnscope's own records and tables. A major step means that older readers cannot read it."""

PROFILE_SCHEMA_VERSION = "7.4.0"
"""Version of the published Neuron Explorer schema whose table and column names are used where it has a table."""
