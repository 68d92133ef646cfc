"""Facts of the golden capture of the RMSNorm walk-through, worked out by hand for its shape of 256 x 512 float32."""

from pathlib import Path
from typing import Any

import pytest

from trnscope.analysis import Summary, compare_captures, summarize
from trnscope.store.capture import Capture, find_captures
from trnscope.store.views import connect

GOLDEN = Path(__file__).parents[1] / "golden" / "rmsnorm"
ROWS, HIDDEN, ITEM = 256, 512, 4
WHOLE = ROWS * HIDDEN * ITEM
COLUMN = ROWS * ITEM
WEIGHT = HIDDEN * ITEM
CORES = 2
SIX = ["aten::mul.Tensor", "aten::mean.dim", "aten::add.Tensor", "aten::rsqrt", "aten::mul.Tensor", "aten::mul.Tensor"]


@pytest.fixture(scope="module")
def captures() -> list[Capture]:
    return find_captures(GOLDEN)


@pytest.fixture(scope="module")
def summaries(captures: list[Capture]) -> list[Summary]:
    return [summarize(capture) for capture in captures]


def rows(capture: Capture, sql: str) -> list[tuple[Any, ...]]:
    with connect(capture) as connection:
        return connection.execute(sql).fetchall()


def test_the_files_are_whole(captures: list[Capture]) -> None:
    assert [capture.directory.name for capture in captures] == ["1_six_ops", "2_rms_norm", "3_compiled"]
    for capture in captures:
        capture.verify_checksums()
        assert (capture.manifest.is_simulation, capture.manifest.window["host_mode"]) == (True, "modelled")


def test_six_executions_against_one(captures: list[Capture]) -> None:
    launched = [
        rows(capture, "SELECT op FROM Execution JOIN OpRecord USING (op_id) ORDER BY start_ns") for capture in captures
    ]
    assert [[op for (op,) in ops] for ops in launched] == [SIX, ["aten::_fused_rms_norm"], ["neuron_graph_inference_0"]]


def test_six_cost_more_than_three_times_one(summaries: list[Summary]) -> None:
    six, fused, compiled = compare_captures(summaries)
    assert [row["executions"] for row in (six, fused, compiled)] == [6, 1, 1]
    assert fused["device_ratio"] < 1 / 3
    assert compiled["device_ratio"] < 1 / 3


def test_hbm_traffic_is_what_the_shapes_say(captures: list[Capture]) -> None:
    """Each operand is read once (x * x has two), results are written once; what is broadcast, by each physical core."""
    sql = "SELECT hbm_read_bytes, hbm_write_bytes FROM Execution JOIN Program USING (program_id) ORDER BY start_ns"
    assert [rows(capture, sql) for capture in captures] == [
        [
            (2 * WHOLE, WHOLE),
            (WHOLE, COLUMN),
            (COLUMN, COLUMN),
            (COLUMN, COLUMN),
            (WHOLE + CORES * COLUMN, WHOLE),
            (WHOLE + CORES * WEIGHT, WHOLE),
        ],
        [(WHOLE + CORES * WEIGHT, WHOLE + COLUMN)],
        [(WHOLE + CORES * WEIGHT, WHOLE)],
    ]


def test_the_modelled_host_launches_every_60_us_and_a_graph_in_95(summaries: list[Summary]) -> None:
    dispatch = [[row["host_ns"] for row in s["host"] if row["category"] == "dispatch"] for s in summaries]
    assert dispatch == [[6 * 60_000], [60_000], [95_000]]


def test_each_execution_has_one_hardware_row_per_physical_core_and_one_flow(captures: list[Capture]) -> None:
    sql = """
        SELECT
            count(*),
            min(s.start_ts) = any_value(e.start_ns),
            max(s.end_ts) = any_value(e.end_ns),
            list_sort(list(s.pcore_idx))
        FROM Execution AS e
        JOIN (SELECT *, unnest(flow_id) AS flow FROM SystemProfileEvents WHERE name = 'nc_exec_running') AS s
            ON s.flow = CAST(e.flow_id AS VARCHAR)
        GROUP BY e.exec_id
    """
    for capture, executions in zip(captures, (6, 1, 1), strict=True):
        assert capture.manifest.lnc == 2
        assert rows(capture, sql) == [(2, True, True, [0, 1])] * executions


def test_busy_engines_stay_inside_their_execution(captures: list[Capture]) -> None:
    sql = """
        SELECT count(*), count(*) FILTER (WHERE a.start_ts >= e.start_ns AND a.end_ts <= e.end_ns)
        FROM ActiveTime AS a JOIN Execution AS e USING (exec_id)
    """
    for capture in captures:
        ((total, inside),) = rows(capture, sql)
        assert total == inside > 0
