"""Which device an argument means."""

from typing import TypeAlias

import torch

from trnscope.device import _C

Device: TypeAlias = int | str | torch.device | None
"""How callers name a device; None is the current one."""


def device_index(device: Device, *, optional: bool = False) -> int:
    """Index of a device given as a number, `neuron:1`, a torch.device or None for the current one.

    Args:
        device: what the caller was given.
        optional: None gives -1, "not said", instead of the current device.

    Raises:
        ValueError: another kind of device, or one that does not exist.
        TypeError: not a device at all.
    """
    if device is None:
        return -1 if optional else int(_C.current_device())
    if isinstance(device, bool) or not isinstance(device, (int, str, torch.device)):
        raise TypeError(f"Expected an int, a str or a torch.device, got {device!r}")
    if isinstance(device, int):
        index = device
    else:
        named = torch.device(device)
        if named.type != "neuron":
            raise ValueError(f"Expected neuron device, got {named.type}")
        index = int(_C.current_device()) if named.index is None else named.index
    count = int(_C.device_count())
    if not 0 <= index < count:
        raise ValueError(f"Invalid device id: {index}. Valid range is 0 to {count - 1}")
    return index
