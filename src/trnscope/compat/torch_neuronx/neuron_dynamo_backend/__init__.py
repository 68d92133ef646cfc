"""Names of `torch_neuronx.neuron_dynamo_backend`."""

from trnscope.compiler import get_dynamo_metrics, neuron_backend, reset_dynamo_metrics

from . import backend

__all__ = ["backend", "get_dynamo_metrics", "neuron_backend", "reset_dynamo_metrics"]
