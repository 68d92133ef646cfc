"""What a profiling session was asked for, checked and in a form that survives torch's profiler core.

torch hands a profiler plugin one string. Its configuration reader ends the process at a `=` or a line break and cuts
at `#`, so values are percent-encoded: `key:value;key:value`, as the published backend's own strings look.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Final
from urllib.parse import quote, unquote

from trnscope.errors import TrnscopeError

DEFAULT_MAX_EVENTS: Final = 1_000_000
DEFAULT_OUTPUT_DIR: Final = "./output"


class ConfigError(TrnscopeError, ValueError):
    """A profiling parameter has a value that it cannot have."""


class ProfileMode(Enum):
    """What a session captures."""

    DEVICE = "device"
    """Programs with their engine instructions and DMA transfers."""
    RUNTIME = "runtime"
    """Executions with the runtime's and the hardware's events."""
    CPU_UTIL = "cpu_util"
    """Samples of this process's CPU use."""
    HOST_MEMORY = "host_memory"
    """Samples of this process's resident memory."""


def _bad(parameter: str, given: object, allowed: str) -> ConfigError:
    shown = repr(given)
    if len(shown) > 120:
        shown = shown[:117] + "..."
    return ConfigError(f"NeuronConfig({parameter}={shown}) is not possible", f"{parameter} must be {allowed}")


@dataclass(frozen=True, slots=True)
class Settings:
    """The checked parameters of a NeuronConfig.

    Attributes:
        modes: what to capture, in the order of ProfileMode.
        max_events_per_nc: executions kept per logical NeuronCore; the oldest are dropped.
        capture_enabled_for_nc: logical NeuronCores to keep, sorted; None = all.
        profile_output_dir: where captures go.
        neff_cache_dir: where programs are looked up and kept between runs; None = not kept.
        precache_node_info: kept for the published interface; it changes nothing here.
        correlate_device_time: show executions as kernels, so that `key_averages()` has device columns.
    """

    modes: tuple[ProfileMode, ...] = (ProfileMode.DEVICE, ProfileMode.RUNTIME)
    max_events_per_nc: int = DEFAULT_MAX_EVENTS
    capture_enabled_for_nc: tuple[int, ...] | None = None
    profile_output_dir: str = DEFAULT_OUTPUT_DIR
    neff_cache_dir: str | None = None
    precache_node_info: bool = True
    correlate_device_time: bool = False

    @classmethod
    def checked(
        cls,
        modes: object,
        max_events_per_nc: object,
        capture_enabled_for_nc: object,
        profile_output_dir: object,
        neff_cache_dir: object,
        precache_node_info: object,
        correlate_device_time: object,
    ) -> "Settings":
        """Settings from what a user gave.

        Raises:
            ConfigError: naming the parameter, what was given and what is allowed.
        """
        return cls(
            _modes(modes),
            _count("max_events_per_nc", max_events_per_nc),
            _cores(capture_enabled_for_nc),
            _path("profile_output_dir", profile_output_dir),
            None if neff_cache_dir is None else _path("neff_cache_dir", neff_cache_dir),
            _flag("precache_node_info", precache_node_info),
            _flag("correlate_device_time", correlate_device_time),
        )

    def to_string(self) -> str:
        """The string for torch's `custom_profiler_config`: ASCII, without `=`, `#`, blanks and line breaks."""
        values: dict[str, str | None] = {
            "modes": ",".join(mode.value for mode in self.modes),
            "max_events_per_nc": str(self.max_events_per_nc),
            "capture_enabled_for_nc": None
            if self.capture_enabled_for_nc is None
            else _ranges(self.capture_enabled_for_nc),
            "profile_output_dir": self.profile_output_dir,
            "neff_cache_dir": self.neff_cache_dir,
            "precache_node_info": str(self.precache_node_info).lower(),
            "correlate_device_time": str(self.correlate_device_time).lower(),
        }
        return ";".join(f"{key}:{_encode(value)}" for key, value in values.items() if value is not None)

    @classmethod
    def from_string(cls, text: str) -> tuple["Settings", list[str]]:
        """Settings from a `custom_profiler_config`, and a complaint for each part that was ignored.

        Also takes strings written by hand for the published backend (`host_memory:true`); it ignores what it does
        not know, and so does this.
        """
        given: dict[str, object] = {}
        complaints: list[str] = []
        extra_modes: list[ProfileMode] = []
        for part in filter(None, (part.strip() for part in text.split(";"))):
            key, colon, raw = (piece.strip() for piece in part.partition(":"))
            value = _decode(raw)
            if not colon or ":" in raw:
                complaints.append(f"{part!r} is not a key:value pair")
            elif key == "host_memory":
                extra_modes += [ProfileMode.HOST_MEMORY] if value.lower() == "true" else []
            elif key not in _READERS:
                complaints.append(f"unknown parameter {key!r}")
            else:
                try:
                    given[key] = _READERS[key](value)
                except ConfigError as error:
                    complaints.append(error.what)
        settings = cls(**given)  # type: ignore[arg-type]
        modes = tuple(mode for mode in ProfileMode if mode in (*settings.modes, *extra_modes))
        return cls(modes, *(getattr(settings, f.name) for f in fields(cls)[1:])), complaints

    def as_json(self) -> dict[str, object]:
        """For `capture.json`."""
        return {
            "modes": [mode.name for mode in self.modes],
            "max_events_per_nc": self.max_events_per_nc,
            "capture_enabled_for_nc": None
            if self.capture_enabled_for_nc is None
            else list(self.capture_enabled_for_nc),
            "profile_output_dir": self.profile_output_dir,
            "neff_cache_dir": self.neff_cache_dir,
            "precache_node_info": self.precache_node_info,
            "correlate_device_time": self.correlate_device_time,
        }


def _modes(given: object) -> tuple[ProfileMode, ...]:
    allowed = "a list of " + ", ".join(f"ProfileMode.{mode.name}" for mode in ProfileMode)
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes)):
        raise _bad("modes", given, allowed)
    chosen = list(given)
    if not chosen or not all(isinstance(mode, ProfileMode) for mode in chosen):
        raise _bad("modes", given, f"{allowed}, at least one of them")
    return tuple(mode for mode in ProfileMode if mode in chosen)


def _count(parameter: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given < 2**31:
        raise _bad(parameter, given, "a whole number from 1 to 2147483647")
    return given


def _flag(parameter: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise _bad(parameter, given, "True or False")
    return given


def _path(parameter: str, given: object) -> str:
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        if isinstance(path, str) and path and "\0" not in path and not any("\ud800" <= c <= "\udfff" for c in path):
            return path
    raise _bad(parameter, given, "the path of a directory (str or os.PathLike), in characters that UTF-8 has")


MAX_CORE: Final = 4095


def _cores(given: object) -> tuple[int, ...] | None:
    if given is None:
        return None
    allowed = f'logical NeuronCores as a string such as "0,1,2-5" or a list of whole numbers, each 0 to {MAX_CORE}'
    cores: set[int] = set()
    if isinstance(given, str):
        for part in given.split(","):
            first, dash, last = (piece.strip() for piece in part.partition("-"))
            last = last if dash else first
            if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
                raise _bad("capture_enabled_for_nc", given, allowed)
            if not int(first) <= int(last) <= MAX_CORE:
                raise _bad("capture_enabled_for_nc", given, f"{allowed}; ranges go upwards")
            cores.update(range(int(first), int(last) + 1))
    elif isinstance(given, Sequence):
        for core in given:
            if isinstance(core, bool) or not isinstance(core, int) or not 0 <= core <= MAX_CORE:
                raise _bad("capture_enabled_for_nc", given, allowed)
            cores.add(core)
    if not cores:
        raise _bad("capture_enabled_for_nc", given, allowed)
    return tuple(sorted(cores))


def _ranges(cores: Sequence[int]) -> str:
    """(0, 1, 2, 5) -> "0-2,5"."""
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _encode(value: str) -> str:
    return quote(value, safe="/,.-_~", encoding="utf-8", errors="surrogateescape")


def _decode(value: str) -> str:
    return unquote(value, encoding="utf-8", errors="surrogateescape")


def _read_modes(text: str) -> tuple[ProfileMode, ...]:
    by_value = {mode.value: mode for mode in ProfileMode}
    return _modes([by_value.get(name.strip()) for name in text.split(",")])


def _read_count(text: str) -> int:
    return _count("max_events_per_nc", int(text) if text.isascii() and text.isdigit() else text)


def _read_flag(text: str) -> bool:
    return _flag("flag", {"true": True, "false": False}.get(text.lower(), text))


_READERS: Final = {
    "modes": _read_modes,
    "max_events_per_nc": _read_count,
    "capture_enabled_for_nc": _cores,
    "profile_output_dir": lambda text: _path("profile_output_dir", text),
    "neff_cache_dir": lambda text: _path("neff_cache_dir", text),
    "precache_node_info": _read_flag,
    "correlate_device_time": _read_flag,
}
