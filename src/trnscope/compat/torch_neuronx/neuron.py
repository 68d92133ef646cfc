"""Names of `torch_neuronx.neuron`, which is also `torch.neuron`."""

from trnscope.device.neuron import *  # noqa: F403
from trnscope.device.neuron import __all__ as __all__
