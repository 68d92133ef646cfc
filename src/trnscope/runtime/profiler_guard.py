"""Refuses profiler configurations that end the process.

torch hands `_ExperimentalConfig.custom_profiler_config` to Kineto as one line of a configuration of `key=value` lines.
A string with a `=` or several lines makes that reader fail, and torch 2.13.0 then uses a session that does not exist.
`NeuronConfig` encodes its values; strings written by hand are checked here, where torch's profiler takes them.
"""

import functools
import re
from typing import Any, Final

from trnscope.errors import TrnscopeError

_UNSAFE: Final = re.compile(r"[=#\r\n]")  # at a # the reader cuts without a word


class ProfilerConfigError(TrnscopeError, ValueError):
    """A configuration string that the profiler cannot take."""


def check(config_string: str) -> None:
    """Checks a `custom_profiler_config`.

    Raises:
        ProfilerConfigError: it has a character that ends the process or cuts the string.
    """
    found = _UNSAFE.search(config_string)
    if found is None:
        return
    shown = repr(config_string if len(config_string) <= 120 else config_string[:117] + "...")
    raise ProfilerConfigError(
        f"custom_profiler_config is {shown}, with {found[0]!r} at position {found.start()}",
        "It must be one line of key:value pairs with ; between them, without = and #. "
        "NeuronConfig(...) writes such a string and takes any value.",
    )


def install() -> None:
    """Checks every configuration that torch's profilers are given from here on."""
    from torch.autograd.profiler import profile

    original = profile.__init__
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def checked(self: profile, *arguments: Any, **parameters: Any) -> None:
        config = parameters.get("experimental_config")
        if config is not None:
            check(config.custom_profiler_config)
        original(self, *arguments, **parameters)

    profile.__init__ = checked
