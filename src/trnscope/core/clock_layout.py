"""How the virtual clock's state lies in its tables: shared by the clock and the loop that runs it."""

from collections.abc import Mapping
from typing import Final

MODE_CODES: Final[Mapping[str, int]] = {"measured": 0, "modelled": 1, "paced": 2}

MAX_THREADS: Final = 256
"""Threads remembered; the one that recorded longest ago is forgotten first."""
MAX_STREAMS: Final = 1024
"""Streams remembered; the one that became free first is forgotten first."""
MAX_EVENTS: Final = 65_536
"""Event recordings remembered. Waiting for an older one is taken as already done and marked uncertain."""

# Columns of the state tables.
THREAD_ID, VIRTUAL, REAL, OWN_REAL, SEEN, OWNER_KIND, TASK, LENDER, DOUBT, TASK_SEEN = range(10)
# REAL is the real exit of the last record on a thread's clock, workers' included; OWN_REAL that of its own last one.
STREAM_DEVICE, STREAM_ID, STREAM_FREE = range(3)
EVENT_ID, EVENT_TIME = range(2)
NO_ENTRY: Final = -1
