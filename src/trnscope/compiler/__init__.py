"""torch.compile(backend="neuron")."""

from trnscope.compiler.backend import neuron_backend
from trnscope.compiler.metrics import NeuronCompilationMetrics, get_dynamo_metrics, reset_dynamo_metrics
from trnscope.compiler.registry import CompiledGraph

__all__ = [
    "CompiledGraph",
    "NeuronCompilationMetrics",
    "get_dynamo_metrics",
    "neuron_backend",
    "reset_dynamo_metrics",
]
