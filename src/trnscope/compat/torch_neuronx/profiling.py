"""Names of `torch_neuronx.profiling`."""

from trnscope.profiling import NeuronConfig, NeuronProfiler, ProfileMode

__all__ = ["NeuronConfig", "NeuronProfiler", "ProfileMode"]
