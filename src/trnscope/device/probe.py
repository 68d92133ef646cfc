"""`python -m trnscope.device.probe`: what happens to the device in a new process, as one JSON object.

`trnscope doctor` runs it as a process of its own, because a broken extension may end the process that loads it.
"""

import json
from typing import TypedDict


class Probe(TypedDict):
    """What was found."""

    torch: str | None
    """Version, or None when torch cannot be imported."""
    error: str | None
    """Why torch could not be imported or the device not be used."""
    registered: bool
    devices: int
    result: list[float] | None
    """(1, 1, 1) * 2, computed on the device."""


def probe() -> Probe:
    """Import torch as a script would, and compute something on the device."""
    found: Probe = {"torch": None, "error": None, "registered": False, "devices": 0, "result": None}
    try:
        import torch
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"
        return found
    from trnscope.device.autoload import is_registered

    found["torch"] = torch.__version__
    found["registered"] = is_registered()
    if found["registered"]:
        try:
            found["devices"] = torch.accelerator.device_count()
            ones = torch.ones(3, device="neuron") * 2
            found["result"] = ones.cpu().tolist()
        except Exception as error:
            found["error"] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    print(json.dumps(probe()))
