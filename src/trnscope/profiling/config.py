"""`NeuronConfig`: the parameters of a profiling session, as an object that `torch.profiler.profile` takes."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from torch._C._profiler import _ExperimentalConfig

from trnscope.profiling.settings import (
    DEFAULT_MAX_EVENTS,
    DEFAULT_OUTPUT_DIR,
    ProfileMode,
    Settings,
)


class NeuronConfig(_ExperimentalConfig):
    """Parameters of a session: `torch.profiler.profile(experimental_config=NeuronConfig(...))`.

    torch passes the object to C++, which takes nothing but a real `_ExperimentalConfig`; the parameters travel in its
    `custom_profiler_config`.

    Args:
        modes: what to capture (ProfileMode).
        max_events_per_nc: executions kept per logical NeuronCore; when there are more, the oldest are dropped.
        capture_enabled_for_nc: logical NeuronCores to keep, as `"0,1,2-5"` or a list of ints; None = all.
        profile_output_dir: captures go to `<dir>/<instance>_pid_<pid>/<timestamp>/`.
        neff_cache_dir: programs of the capture are also kept here; None = only in the capture.
        precache_node_info: accepted for scripts that set it. The metadata of modelled programs is always at hand.
        correlate_device_time: give `key_averages()` its device columns.

    Raises:
        ConfigError: (a TrnscopeError and a ValueError) for a value that is not possible.
    """

    def __init__(
        self,
        modes: Iterable[ProfileMode] = (ProfileMode.DEVICE, ProfileMode.RUNTIME),
        max_events_per_nc: int = DEFAULT_MAX_EVENTS,
        capture_enabled_for_nc: str | Sequence[int] | None = None,
        profile_output_dir: str | os.PathLike[str] = DEFAULT_OUTPUT_DIR,
        neff_cache_dir: str | os.PathLike[str] | None = None,
        precache_node_info: bool = True,
        correlate_device_time: bool = False,
    ) -> None:
        settings = Settings.checked(
            modes,
            max_events_per_nc,
            capture_enabled_for_nc,
            profile_output_dir,
            neff_cache_dir,
            precache_node_info,
            correlate_device_time,
        )
        super().__init__(custom_profiler_config=settings.to_string())
        self.settings = settings

    @property
    def modes(self) -> list[ProfileMode]:
        return list(self.settings.modes)

    @property
    def max_events_per_nc(self) -> int:
        return self.settings.max_events_per_nc

    @property
    def capture_enabled_for_nc(self) -> list[int] | None:
        cores = self.settings.capture_enabled_for_nc
        return None if cores is None else list(cores)

    @property
    def profile_output_dir(self) -> str:
        return self.settings.profile_output_dir

    @property
    def neff_cache_dir(self) -> str | None:
        return self.settings.neff_cache_dir

    @property
    def precache_node_info(self) -> bool:
        return self.settings.precache_node_info

    @property
    def correlate_device_time(self) -> bool:
        return self.settings.correlate_device_time

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in self.settings.as_json().items())
        return f"NeuronConfig({parts})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NeuronConfig) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash(self.settings)

    # The base class is pickled and copied by its own state, which does not know of this class's attributes.
    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.settings, super().__getstate__())


def _restore(kind: type[NeuronConfig], settings: Settings, state: object) -> NeuronConfig:
    config: NeuronConfig = kind.__new__(kind)
    _ExperimentalConfig.__setstate__(config, state)  # type: ignore[attr-defined]  # missing in torch's stub
    config.settings = settings
    return config
