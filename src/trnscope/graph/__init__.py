"""The op graph: what an op or a graph of ops computes, told without torch."""

from trnscope.graph.spec import GraphNode, GraphSpec, OpSpec, TensorSpec, ValueRef

__all__ = ["GraphNode", "GraphSpec", "OpSpec", "TensorSpec", "ValueRef"]
