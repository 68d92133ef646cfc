"""Device tables: the columns of the schema, times that agree with the schedule, rows that refer to each other."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from trnscope.chips import Target
from trnscope.core import schedule as schedule_module
from trnscope.core.tables import merge, program_tables, truncated_rows
from trnscope.graph.spec import OpSpec, TensorSpec
from trnscope.kernels import Modelled, model
from trnscope.schema.tables import TABLES
from trnscope.schema.vocabulary import ENGINES, STALL_REASONS

NAMES = ("ProgramInstruction", "ProgramDmaPacketAggregated", "ProgramActiveTime")


def add(n: int, target: Target) -> Modelled:
    x = TensorSpec("float32", (n,), (1,))
    return model(OpSpec("aten::add.Tensor", (x, x), (x,)), target)


def test_columns_are_those_of_the_schema() -> None:
    tables = program_tables(7, add(2**20, Target()))
    assert tuple(tables) == NAMES
    for name, table in tables.items():
        assert table.column_names == [column.name for column in TABLES[name].columns]
        assert [str(t) for t in table.schema.types] == [
            {"float64": "double"}.get(column.type, column.type) for column in TABLES[name].columns
        ]
        assert pc.all(pc.equal(table["program_id"], 7)).as_py()
        for column in TABLES[name].columns:
            assert not column.required or table[column.name].null_count == 0, column.name


def test_rows_agree_with_the_program_and_its_schedule() -> None:
    modelled = add(2**20, Target())
    tables = program_tables(0, modelled)
    instructions, transfers, active = (tables[name] for name in NAMES)
    assert instructions.num_rows == modelled.instructions == 4
    assert transfers.num_rows == modelled.transfers == 12
    assert pc.sum(instructions["raw_flops"]).as_py() == modelled.flops
    read = transfers.filter(pc.equal(transfers["source"], "HBM"))
    assert pc.sum(read["transfer_bytes"]).as_py() == modelled.hbm_read_bytes
    assert set(instructions["pcore_idx"].to_pylist()) == {0, 1}
    assert set(instructions["engine"].to_pylist()) <= set(ENGINES)
    assert instructions["opcode"].to_pylist() == ["TENSOR_TENSOR"] * 4
    assert instructions["hlo_name"].to_pylist() == ["aten::add.Tensor"] * 4
    ends = max(pc.max(t["end_ts"]).as_py() for t in (instructions, transfers, active))
    assert ends <= modelled.device_time_ns
    starts = min(pc.min(t["start_ts"]).as_py() for t in (instructions, transfers))
    assert starts == modelled.schedule.preamble_ps // 1000


def test_waits_have_a_reason_and_a_cause() -> None:
    tables = program_tables(0, add(2**22, Target()))
    instructions, transfers = tables[NAMES[0]], tables[NAMES[1]]
    ids = instructions["id"].to_pylist() + transfers["id"].to_pylist()
    assert len(set(ids)) == len(ids)
    for row in instructions.to_pylist():
        assert (row["stall_reason"] is None) == (row["evt_wait_time_ns"] == 0)
        assert row["stall_reason"] is None or row["stall_reason"] in STALL_REASONS
        assert row["critical_id"] is None or row["critical_id"] in ids


def test_active_time_is_the_union_of_busy_intervals() -> None:
    start, end = merge(np.array([5, 0, 9, 20, 30]), np.array([8, 6, 9, 25, 31]))
    assert start.tolist() == [0, 20, 30]
    assert end.tolist() == [8, 25, 31]
    active = program_tables(0, add(2**22, Target("trn2", lnc=1)))["ProgramActiveTime"]
    for engine in ("vector", "dma"):
        own = active.filter(pc.equal(active["engine"], engine)).sort_by("start_ts")
        assert own.num_rows > 0
        assert pc.all(pc.greater_equal(own["start_ts"][1:], own["end_ts"][:-1])).as_py()


def test_long_programs_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_module, "MAX_RECORDED_ROWS", 100)
    modelled = add(2**28, Target())
    tables = program_tables(0, modelled)
    rows = tables[NAMES[0]].num_rows + tables[NAMES[1]].num_rows
    assert rows == 200
    assert truncated_rows(modelled) == modelled.instructions + modelled.transfers - 200


def test_an_empty_program_has_empty_tables() -> None:
    x = TensorSpec("float32", (0,), (1,))
    tables = program_tables(0, model(OpSpec("aten::relu", (x,), (x,)), Target()))
    assert [table.num_rows for table in tables.values()] == [0, 0, 0]
    assert all(isinstance(table, pa.Table) for table in tables.values())
