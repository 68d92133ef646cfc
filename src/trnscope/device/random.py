"""Random numbers: each device has a generator of its own.

For the same seed it gives the CPU's stream, so that a script computes the same values on either. A state is what
the CPU's generator has (5056 bytes); the real backend's has 16 bytes.
"""

from collections.abc import Sequence

import torch

from trnscope.device import _C
from trnscope.device.indices import Device, device_index

default_generators: tuple[torch.Generator, ...] = tuple(_C.default_generator(i) for i in range(_C.device_count()))
"""The generator of each device."""


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    default_generators[_C.current_device()].manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices."""
    for generator in default_generators:
        generator.manual_seed(seed)


def seed() -> int:
    """Seeds the current device's generator with a random number, and returns it."""
    return int(default_generators[_C.current_device()].seed())


def seed_all() -> None:
    """Seeds the generators of all devices with one random number."""
    manual_seed_all(seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return int(default_generators[_C.current_device()].initial_seed())


def get_rng_state(device: Device = None) -> torch.Tensor:
    """State of a device's generator, as a CPU tensor of bytes."""
    return default_generators[device_index(device)].get_state()


def set_rng_state(state: torch.Tensor, device: Device = None) -> None:
    """Puts a device's generator into a state that `get_rng_state` gave.

    Raises:
        RuntimeError: not such a state.
    """
    default_generators[device_index(device)].set_state(state)


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all devices' generators."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state_all(states: Sequence[torch.Tensor]) -> None:
    """Puts the devices' generators into the given states."""
    for generator, state in zip(default_generators, states, strict=True):
        generator.set_state(state)
