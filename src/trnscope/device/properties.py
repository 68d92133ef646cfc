"""What a device is."""

from dataclasses import dataclass
from functools import cache

import torch

from trnscope import config
from trnscope.device.indices import Device, device_index


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """A modelled logical NeuronCore.

    Attributes:
        name: generation, e.g. `trn2`.
        total_memory: bytes of HBM.
        instance: instance type that holds it.
        lnc: physical NeuronCores that make it up.
        is_simulation: always true: its time is modelled.
    """

    name: str
    total_memory: int
    instance: str
    lnc: int
    is_simulation: bool = True


@cache
def _properties() -> DeviceProperties:
    settings = config.resolve()
    return DeviceProperties(settings.chip, settings.hbm_bytes, settings.instance, settings.lnc)


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Properties of a device.

    Raises:
        ValueError: no such device.
    """
    device_index(device)
    return _properties()


def get_device_name(device: Device = 0) -> str:
    """`neuron:0` and so on: the real backend names devices so."""
    if not isinstance(device, (int, str, torch.device)) and device is not None:
        raise ValueError(f"Expected an int, a str or a torch.device, got {device!r}")
    return f"neuron:{device_index(device)}"
