"""A meta path finder for `torch_neuronx`, asked only after every other finder has failed.

The `.pth` file in site-packages puts a forwarder to it last in `sys.meta_path` at every Python start, so that scripts
written for the real backend run unmodified under a plain `python script.py`. The forwarder is spelled out in the
`.pth` file because importing this module would cost every start of the interpreter several milliseconds. Standing
last, it never wins over an installed torch_neuronx; on a machine with a real Neuron device it finds nothing and says
why.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from trnscope import presence

NAME = "torch_neuronx"


class CompatFinder:
    """Finds trnscope's `torch_neuronx`; submodules are then found by Python's own path finder."""

    _refused = False

    @classmethod
    def find_spec(
        cls, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Spec of the stand-in, or None for other names, when switched off, and beside a real device."""
        if fullname != NAME or presence.switched_off():
            return None
        if (device := presence.real_device()) is not None:
            if not cls._refused:
                print(
                    f"trnscope: {device} is a real Neuron device, so trnscope does not stand in for {NAME}. "
                    "Install the real package to use it.",
                    file=sys.stderr,
                )
            cls._refused = True
            return None
        package = Path(__file__).with_name(NAME)
        return importlib.util.spec_from_file_location(
            NAME, package / "__init__.py", submodule_search_locations=[str(package)]
        )


def install() -> None:
    """Append the finder to `sys.meta_path`, once: for environments whose site-packages lack the `.pth` file."""
    if CompatFinder not in sys.meta_path:
        sys.meta_path.append(CompatFinder)
