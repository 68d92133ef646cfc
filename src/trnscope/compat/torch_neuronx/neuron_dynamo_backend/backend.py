"""Names of `torch_neuronx.neuron_dynamo_backend.backend`."""

from trnscope.compiler import neuron_backend

__all__ = ["neuron_backend"]
