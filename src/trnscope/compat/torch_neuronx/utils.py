"""Names of `torch_neuronx.utils`."""

from trnscope.device.indices import device_index as _get_device_index

__all__ = ["_get_device_index"]
