"""Each question's answer on the example capture, worked out on paper."""

from pathlib import Path
from typing import Any, get_type_hints

import pytest

from example_capture import GRAPH, execution, write_example
from handmade import write_capture
from trnscope.analysis import ask, compare_captures, compare_regions, summarize
from trnscope.analysis import summary as shapes
from trnscope.analysis.question import QUESTIONS
from trnscope.store.capture import open_capture
from trnscope.store.views import connect

GAPS = [
    # idle from 350; submitted at 550: the host owns 200, the launch 50
    {"before_exec_id": 12, "after_exec_id": 14, "after_op": "aten::_copy_from", "start_ns": 350}
    | {"gap_ns": 250, "host_ns": 200, "launch_ns": 50},
    # idle from 130; submitted at 95, before that: no host share
    {"before_exec_id": 10, "after_exec_id": 11, "after_op": "aten::mul.Tensor", "start_ns": 130}
    | {"gap_ns": 20, "host_ns": 0, "launch_ns": 20},
]
ANSWERS: dict[str, tuple[type, list[tuple[Any, ...]]]] = {
    "op_time": (
        shapes.OpTime,
        [
            (GRAPH, "kernel", 1, 1, 500, 500, 500 / 870, 400, 700, 0, 0, "memory", "single-witness"),
            ("aten::mul.Tensor", "kernel", 2, 2, 200, 100, 200 / 870, 170, 250, 16, 192, "memory", "unseen"),
            ("aten::sort", "kernel", 1, 1, 100, 100, 100 / 870, 50, 200, 0, 0, "latency", "single-witness"),
            ("aten::_copy_from", "copy", 1, 0, 40, 40, 40 / 870, 40, 40, 0, 0, "unknown", "unseen"),
            ("aten::add.Tensor", "kernel", 1, 1, 30, 30, 30 / 870, 20, 60, 4, 48, "overhead", "validated"),
        ],
    ),
    "op_calls": (
        shapes.OpCalls,
        [
            ("aten::mul.Tensor", 2, 2, 0, 0),
            ("aten::_copy_from", 1, 1, 0, 0),
            ("aten::add.Tensor", 1, 1, 0, 1),
            ("aten::sort", 1, 1, 0, 0),
            (GRAPH, 1, 1, 0, 0),
            ("aten::view", 1, 0, 1, 0),
        ],
    ),
    # Core 0: 30 + [150, 400) + 40; the sort overlaps the second mul by 50
    "devices": (shapes.DeviceTime, [(0, 5, 370, 320, 100, 640), (1, 1, 500, 500, 1000, 1500)]),
    "host_time": (
        shapes.HostTime,
        [
            (7, "sync", 1, 405, 0),
            (7, "python", 1, 80, 0),
            (7, "copy", 1, 60, 0),
            (7, "dispatch", 2, 41, 31),
            (8, "dispatch", 1, 10, 0),
        ],
    ),
    "gaps": (shapes.StreamGaps, [(0, 0, 2, 270, 200, 70, GAPS)]),
    "launches": (
        shapes.Launches,
        [
            # delays 15, 55, 140, 175; two found their stream busy: the muls (add ends 130 > 95, mul ends 250 > 110)
            ("eager", 4, 10, 15, 55, 175, 175, 2),
            ("compiled", 1, 95, 250, 250, 250, 250, 0),
            ("copy", 1, 60, 50, 50, 50, 50, 0),
        ],
    ),
    "first_uses": (shapes.FirstUse, [(10, 0, "aten::add.Tensor", "aa", 100, 15)]),
    "regions": (
        shapes.Region,
        [
            ("annotation", "whole", 1, 6, 870, 730),
            # dispatched at 80 and 90, then at 101 and 121
            ("annotation", "eager", 2, 4, 330, 129),
            ("annotation", "compiled", 1, 1, 500, 100),
            ("annotation", "nothing", 1, 0, 0, 100),
            ("step", "0", 1, 5, 370, 600),
            ("step", "1", 1, 1, 500, 600),
        ],
    ),
    "data_quality": (shapes.DataQuality, [("dropped-executions", 3, "Three are gone.")]),
}


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_example(tmp_path_factory.mktemp("analysis") / "a")


@pytest.mark.parametrize("question", ANSWERS)
def test_expected_table(capture: Path, question: str) -> None:
    shape, expected = ANSWERS[question]
    with connect(open_capture(capture)) as connection:
        answer = ask(connection, question)
    assert [tuple(row.values()) for row in answer] == expected
    assert list(answer[0]) == list(get_type_hints(shape)), "the typed row and the SQL name other columns"


def test_every_question_has_its_expected_table_and_a_header() -> None:
    files = {path.name.removesuffix(".sql"): path.read_text() for path in QUESTIONS.iterdir()}
    assert set(files) == set(ANSWERS)
    for name, (shape, _) in ANSWERS.items():
        header = files[name].split("\nSELECT")[0].split("\nWITH")[0]
        assert all(line.startswith("--") for line in header.splitlines()), name
        undocumented = [column for column in get_type_hints(shape) if column not in header]
        assert undocumented == [], name


@pytest.mark.parametrize("question", ANSWERS)
def test_an_empty_capture_has_an_empty_answer(tmp_path: Path, question: str) -> None:
    with connect(open_capture(write_capture(tmp_path / "a", {}))) as connection:
        assert ask(connection, question) == []


def test_device_time_of_the_ops_adds_up_to_the_total(capture: Path) -> None:
    summary = summarize(open_capture(capture))
    assert sum(row["device_time_ns"] for row in summary["ops"]) == summary["totals"]["device_time_ns"] == 870
    assert sum(row["share"] for row in summary["ops"]) == pytest.approx(1)


def test_totals(capture: Path) -> None:
    assert summarize(open_capture(capture))["totals"] == {
        "executions": 6,
        "programs": 5,
        "device_time_ns": 870,
        "device_busy_ns": 820,
        "span_ns": 1500,
        "device_busy_share": 820 / 3000,
    }


def test_totals_of_nothing(tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "a", {}, window={"end_ns": 0})
    assert summarize(open_capture(capture))["totals"] == {
        "executions": 0,
        "programs": 0,
        "device_time_ns": 0,
        "device_busy_ns": 0,
        "span_ns": 0,
        "device_busy_share": 0.0,
    }


def test_regions_are_compared_per_occurrence(capture: Path) -> None:
    regions = summarize(open_capture(capture))["regions"]
    chosen = [region for region in regions if region["name"] in ("eager", "compiled")]
    assert [(row["name"], row["device_ratio"]) for row in compare_regions(chosen)] == [
        ("eager", 1.0),
        ("compiled", 500 / 165),
    ]
    idle_first = [region for region in regions if region["name"] == "nothing"] + chosen
    assert all("device_ratio" not in row for row in compare_regions(idle_first))


def test_captures_are_compared_by_their_directory(capture: Path, tmp_path: Path) -> None:
    other = write_capture(tmp_path / "b", {"Execution": [execution(1, 0, 0, 0, 87, name="Copy H2D")]})
    summaries = [summarize(open_capture(path)) for path in (capture, other)]
    assert [tuple(row.values()) for row in compare_captures(summaries)] == [
        ("a", 1, 6, 870, 1200, GRAPH, 1.0),
        ("b", 1, 1, 87, 1000, "Copy H2D", 0.1),
    ]
