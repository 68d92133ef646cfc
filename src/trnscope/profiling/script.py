"""Profiles a whole script, unless the script profiles itself: torch has one profiler per process."""

import functools
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trnscope.device.autoload import _autoload, is_registered
from trnscope.profiling import NeuronConfig, NeuronProfiler
from trnscope.schema import CaptureLayout


@dataclass(frozen=True, slots=True)
class ScriptOptions:
    """What to record beside ops and executions. The fields are those of `torch.profiler.profile`."""

    with_stack: bool = False
    record_shapes: bool = False
    profile_memory: bool = False


def ensure_device() -> bool:
    """Register the device where `import torch` was told not to; False when it cannot be used."""
    _autoload()
    return is_registered()


def captures_of_this_process(output: Path) -> list[Path]:
    """Complete captures that this process has written beneath `output`, oldest first."""
    pattern = f"{CaptureLayout.process_directory('*', os.getpid())}/*/{CaptureLayout.MANIFEST}"
    return sorted(manifest.parent for manifest in output.glob(pattern))


class ScriptProfiler:
    """One window over a whole script.

    When the script starts a profiler of its own, this one stands down: it is stopped and leaves nothing behind.

    Args:
        config: the session's parameters.
        options: torch's switches.
    """

    def __init__(self, config: NeuronConfig, options: ScriptOptions) -> None:
        self.stood_down = False
        self._config = config
        self._options = options
        self._profile: torch.profiler.profile | None = None
        self._prepare = torch.autograd.profiler.profile._prepare_trace

    def start(self) -> None:
        """Open the window and watch for profilers of the script."""
        self._profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1],
            experimental_config=self._config,
            on_trace_ready=NeuronProfiler(self._config).export_trace,
            record_shapes=self._options.record_shapes,
            profile_memory=self._options.profile_memory,
            with_stack=self._options.with_stack,
            with_modules=self._options.with_stack,
        )
        self._profile.start()

        @functools.wraps(self._prepare)
        def prepare(other: Any) -> None:
            self._stand_down()
            self._prepare(other)

        # Every profiler of torch passes here before it starts; there is no public hook
        torch.autograd.profiler.profile._prepare_trace = prepare

    def stop(self) -> None:
        """Close the window, which writes the capture; nothing when it stood down."""
        profile, self._profile = self._profile, None
        torch.autograd.profiler.profile._prepare_trace = self._prepare
        if profile is not None:
            profile.stop()

    def _stand_down(self) -> None:
        profile, self._profile = self._profile, None
        torch.autograd.profiler.profile._prepare_trace = self._prepare
        if profile is None:
            return
        self.stood_down = True
        profile.on_trace_ready = None
        profile.stop()
        for directory in captures_of_this_process(Path(self._config.profile_output_dir)):
            shutil.rmtree(directory)
