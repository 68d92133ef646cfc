"""The PyTorch device `neuron`."""

from trnscope.device.autoload import _autoload

__all__ = ["_autoload"]
