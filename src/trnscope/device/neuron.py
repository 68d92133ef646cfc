"""The module `torch.neuron`."""

from typing import Any

import torch

from trnscope.device import _C


def is_available() -> bool:
    """Whether there is a device."""
    return bool(_C.device_count() > 0)


def is_initialized() -> bool:
    """Whether the device can be used in this process."""
    return True


def device_count() -> int:
    """Logical NeuronCores that this process sees."""
    return int(_C.device_count())


def current_device() -> int:
    """Index of the current device of this thread."""
    return int(_C.current_device())


def set_device(device: Any) -> None:
    """Makes a device the current one of this thread."""
    _C.set_device(device if isinstance(device, int) else torch.device(device).index or 0)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types that autocast accepts."""
    return [torch.float32, torch.float16, torch.bfloat16]


def _is_in_bad_fork() -> bool:
    return False


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices."""
    for device in range(device_count()):
        _C.manual_seed(device, seed)


def synchronize(device: Any = None) -> None:
    """Waits for all work of a device."""
    torch.accelerator.synchronize(device if device is not None else current_device())
