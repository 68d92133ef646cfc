"""Names and metrics of compiled graphs."""

import json

import pytest

pytest.importorskip("torch")

from trnscope.compiler import metrics
from trnscope.compiler import registry as registry_module
from trnscope.compiler.registry import CompiledGraph, GraphRegistry, graph_columns
from trnscope.graph import GraphNode, GraphSpec, OpSpec, TensorSpec, ValueRef

VECTOR = TensorSpec("float32", (4,), (1,))


def spec(name: str, op: str) -> GraphSpec:
    node = GraphNode(OpSpec(op, (VECTOR,), (VECTOR,)), (ValueRef(-1, 0),))
    return GraphSpec(name, "inference", (VECTOR,), (node,), (ValueRef(0, 0),))


def compiled(graph_id: int, name: str, op: str = "aten::relu") -> CompiledGraph:
    return CompiledGraph(
        graph_id=graph_id,
        model_name="model",
        spec=spec(name, op),
        call_nodes=1,
        compiled_at_ns=1_500_000_000,
        passes_ns=1_999,
        lower_ns=3_000,
        compile_ns=5_001,
    )


def test_names_count_per_model_and_kind_ids_over_all():
    registry = GraphRegistry()
    requests = [("m", "forward"), ("m", "backward"), ("m", "forward"), ("other", "forward")]
    assert [registry.reserve(*request) for request in requests] == [
        (0, "m_forward_0"),
        (1, "m_backward_0"),
        (2, "m_forward_1"),
        (3, "other_forward_0"),
    ]
    assert registry.graphs() == ()


def test_metrics_have_the_real_names_and_units(monkeypatch):
    registry = GraphRegistry()
    registry.add(compiled(0, "model_inference_0"))
    registry.add(compiled(1, "model_inference_1", "_c10d_functional::all_reduce"))
    monkeypatch.setattr(metrics, "registry", registry)
    monkeypatch.setattr(metrics, "_reset_count", 0)

    first, second = metrics.get_dynamo_metrics()
    assert first == metrics.NeuronCompilationMetrics(
        graph_id=0,
        graph_name="model_inference_0",
        model_name="model",
        has_collectives=False,
        graph_node_count=1,
        timestamp=1.5,
        torch_neuronx_fx_passes_us=1,
        torch_neuronx_lower_us=3,
        torch_neuronx_compile_us=5,
    )
    assert second.has_collectives

    metrics.reset_dynamo_metrics()
    assert metrics.get_dynamo_metrics() == []
    registry.add(compiled(2, "model_inference_2"))
    assert [m.graph_name for m in metrics.get_dynamo_metrics()] == ["model_inference_2"]
    assert len(registry.graphs()) == 3  # captures still know them


def test_graph_table_is_valid_json_whatever_the_scalars(monkeypatch):
    registry = GraphRegistry()
    op = OpSpec("aten::clamp", (VECTOR,), (VECTOR,), (("min", float("-inf")), ("max", 2.5), ("weight", 1 + 2j)))
    node = GraphNode(op, (ValueRef(-1, 0),))
    graph = compiled(7, "g")
    spec_of_graph = GraphSpec("g", "forward", (VECTOR,), (node,), (ValueRef(0, 0),))
    registry.add(compiled(6, "not launched"))
    registry.add(CompiledGraph(7, "model", spec_of_graph, 1, graph.compiled_at_ns, 1_999, 3_000, 5_001))
    monkeypatch.setattr(registry_module, "registry", registry)

    columns = graph_columns({"g"})
    [text] = columns.pop("graph_json")
    assert columns == {"graph_id": [7], "name": ["g"], "kind": ["forward"], "nodes": [1], "compile_ns": [10_000]}
    read = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert read["nodes"][0]["op"]["scalars"] == [["min", "-inf"], ["max", 2.5], ["weight", "(1+2j)"]]
    assert read["nodes"][0]["sources"] == [{"node": -1, "index": 0}]
    assert read["inputs"] == [{"dtype": "float32", "shape": [4], "strides": [1], "offset": 0}]
