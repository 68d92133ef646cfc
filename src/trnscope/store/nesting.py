"""Where slices lie on their tracks: lanes, depth, parents, and what encloses a point in time.

One sweep over slices and points sorted by track and start. Lanes keep slices apart that cross: within a lane every
two slices are disjoint or nested.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numba import njit

from trnscope.schema.events import FLOW_POINT, INSTANT, NESTING, POINT_BINDING, SLICE, SLICE_KINDS
from trnscope.store.engine import IMPORT_MEMORY, connect, path_literal
from trnscope.store.quality import Quality
from trnscope.store.table_files import TableSet, integers
from trnscope.store.tracks import TrackRegistry

MAX_LANES: Final = 256
_MAX_OPEN: Final = 512
_BATCH: Final = 1 << 16
_NONE: Final = -1
_HOUR_NS: Final = 3_600_000_000_000

_OP: Final = SLICE_KINDS.index("op")
_ANNOTATION: Final = SLICE_KINDS.index("annotation")
_PYTHON: Final = SLICE_KINDS.index("python")

# columns of the open-slice stacks
_END, _ID, _OP_ID, _ANNOTATION_ID, _PYTHON_ID, _COVERED = 0, 1, 2, 3, 4, 5


@njit(cache=True, nogil=True)
def sweep(track, start, duration, ident, kind, state, depth, stack, result, stats):  # type: ignore[no-untyped-def]
    """Place a sorted batch.

    All inputs are int64 of length n: `kind` is -1 for a point, else the code of the slice kind. `state` holds the
    current track, its lanes and its last end; `depth` (MAX_LANES) the open slices per lane; `stack`
    (MAX_LANES, depth, 6) those slices. `result` (n, 7) becomes lane, depth, parent, op, annotation, python,
    covered ns. `stats` counts crossing slices, slices beyond the lane limit and gaps of more than an hour.
    """
    for i in range(track.shape[0]):
        if track[i] != state[0]:
            for lane in range(state[1]):
                depth[lane] = 0
            state[0] = track[i]
            state[1] = 1
            state[2] = start[i]
        if start[i] - state[2] > _HOUR_NS:
            stats[2] += 1
        begin = start[i]
        end = begin + duration[i]
        state[2] = max(state[2], end)
        for lane in range(state[1]):
            d = depth[lane]
            # a point or an empty slice at the very end of a slice still belongs to it only where nothing follows
            while d > 0 and stack[lane, d - 1, _END] <= begin:
                d -= 1
            depth[lane] = d
        parent_lane = -1
        parent_depth = -1
        for lane in range(state[1]):
            d = depth[lane] - 1
            while d >= 0 and stack[lane, d, _END] < end:
                d -= 1
            if d >= 0:
                parent_lane = lane
                parent_depth = d
                break
        if parent_lane >= 0:
            parent = stack[parent_lane, parent_depth, _ID]
            op = stack[parent_lane, parent_depth, _OP_ID]
            annotation = stack[parent_lane, parent_depth, _ANNOTATION_ID]
            python = stack[parent_lane, parent_depth, _PYTHON_ID]
        else:
            parent, op, annotation, python = _NONE, _NONE, _NONE, _NONE
        result[i, 2], result[i, 3], result[i, 4], result[i, 5] = parent, op, annotation, python
        if kind[i] < 0:
            continue
        covered = 0
        if parent_lane >= 0:
            since = max(begin, stack[parent_lane, parent_depth, _COVERED])
            covered = max(0, end - since)
            stack[parent_lane, parent_depth, _COVERED] = max(end, stack[parent_lane, parent_depth, _COVERED])
        result[i, 6] = covered
        chosen = -1
        for lane in range(state[1]):
            d = depth[lane]
            if (d == 0 or stack[lane, d - 1, _END] >= end) and d < stack.shape[1]:
                chosen = lane
                break
        if chosen < 0:
            if state[1] < depth.shape[0]:
                chosen = state[1]
                state[1] += 1
                depth[chosen] = 0
            else:
                chosen = depth.shape[0] - 1
                stats[1] += 1
                if depth[chosen] >= stack.shape[1]:
                    depth[chosen] = stack.shape[1] - 1
        if chosen > 0:
            stats[0] += 1
        d = depth[chosen]
        result[i, 0] = chosen
        result[i, 1] = d
        stack[chosen, d, _END] = end
        stack[chosen, d, _ID] = ident[i]
        stack[chosen, d, _OP_ID] = ident[i] if kind[i] == _OP else op
        stack[chosen, d, _ANNOTATION_ID] = ident[i] if kind[i] == _ANNOTATION else annotation
        stack[chosen, d, _PYTHON_ID] = ident[i] if kind[i] == _PYTHON else python
        stack[chosen, d, _COVERED] = begin
        depth[chosen] = d + 1


class NestingPass:
    """Writes the tables Nesting and PointBinding of one source."""

    def __init__(self, source_id: int, tables: TableSet, tracks: TrackRegistry, quality: Quality) -> None:
        self._source_id = source_id
        self._tables = tables
        self._tracks = tracks
        self._quality = quality

    def run(self) -> None:
        """Sort and sweep; needs Slice, FlowPoint and Instant to be closed."""
        query = self._query()
        if query is None:
            return
        state = np.array([-1, 1, 0], np.int64)
        depth = np.zeros(MAX_LANES, np.int64)
        stack = np.zeros((MAX_LANES, _MAX_OPEN, 6), np.int64)
        stats = np.zeros(3, np.int64)
        with connect(IMPORT_MEMORY, spill=self._tables.directory / "spill") as connection:
            for batch in connection.sql(query).to_arrow_reader(_BATCH):
                self._batch(batch, state, depth, stack, stats)
        for kind, count in zip(("overlapping-slices", "lane-limit", "clock-jump"), stats.tolist(), strict=True):
            if count:
                self._quality.add(kind, count=count)
        self._tables.close(NESTING, POINT_BINDING)

    def _batch(self, batch: Any, state: Any, depth: Any, stack: Any, stats: Any) -> None:
        track, start, duration, ident, kind = (
            np.ascontiguousarray(batch.column(k).to_numpy(zero_copy_only=False), dtype=np.int64) for k in range(5)
        )
        result = np.zeros((len(track), 7), np.int64)
        sweep(track, start, duration, ident, kind, state, depth, stack, result, stats)
        is_slice = kind >= 0
        lanes = result[is_slice, 0]
        tracks = track[is_slice]
        size = len(tracks)
        for high in np.unique(tracks[lanes > 0]):
            known = self._tracks.by_id(int(high))
            known.lanes = max(known.lanes, int(lanes[tracks == high].max()) + 1)
        if size:
            self._tables[NESTING].write(
                {
                    "slice_id": integers(ident[is_slice]),
                    "source_id": integers(np.full(size, self._source_id, np.int64)),
                    "track_id": integers(tracks),
                    "start_ns": integers(start[is_slice]),
                    "duration_ns": integers(duration[is_slice]),
                    "lane": integers(lanes),
                    "depth": integers(result[is_slice, 1]),
                    "parent_id": integers(result[is_slice, 2], _NONE),
                    "op_id": integers(result[is_slice, 3], _NONE),
                    "annotation_id": integers(result[is_slice, 4], _NONE),
                    "python_id": integers(result[is_slice, 5], _NONE),
                    "covered_ns": integers(result[is_slice, 6]),
                }
            )
        bound = ~is_slice & (result[:, 2] >= 0)
        if bound.any():
            self._tables[POINT_BINDING].write(
                {
                    "event_id": integers(ident[bound]),
                    "source_id": integers(np.full(int(bound.sum()), self._source_id, np.int64)),
                    "slice_id": integers(result[bound, 2]),
                }
            )

    def _query(self) -> str | None:
        # only the kinds that the sweep treats differently have a code of their own
        codes = " ".join(f"WHEN '{SLICE_KINDS[code]}' THEN {code}" for code in (_OP, _ANNOTATION, _PYTHON))
        parts = []
        slices = self._path(SLICE.name)
        if slices.exists():
            parts.append(
                f"SELECT track_id, start_ns, duration_ns, slice_id, (CASE kind {codes} ELSE 0 END)::BIGINT AS kind "
                f"FROM read_parquet({path_literal(slices)})"
            )
        for table in (FLOW_POINT, INSTANT):
            path = self._path(table.name)
            if slices.exists() and path.exists():
                parts.append(
                    "SELECT track_id, timestamp_ns, 0::BIGINT, event_id, -1::BIGINT "
                    f"FROM read_parquet({path_literal(path)})"
                )
        if not parts:
            return None
        # a slice comes before the points at its start; of slices with one start the longest is outermost
        return (
            f"SELECT * FROM ({' UNION ALL '.join(parts)}) "
            "ORDER BY track_id, start_ns, (kind < 0), duration_ns DESC, slice_id"
        )

    def _path(self, name: str) -> Path:
        return self._tables.directory / f"{name}.parquet"
