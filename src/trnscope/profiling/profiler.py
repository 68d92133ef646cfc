"""`NeuronProfiler`: writes the framework trace of a window into its capture."""

import tempfile
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from trnscope.profiling.config import NeuronConfig
from trnscope.profiling.session import Finished, session
from trnscope.profiling.virtual_trace import to_virtual
from trnscope.schema import CaptureLayout
from trnscope.store.capture import open_capture
from trnscope.store.writer import file_entry, replace_file, write_manifest


class NeuronProfiler:
    """Exports traces of profiles that use a NeuronConfig.

    `profile(experimental_config=config, on_trace_ready=NeuronProfiler(config).export_trace)` puts `trace.json` into
    each window's capture. As a context manager it profiles CPU and device by itself.

    Args:
        config: the same NeuronConfig as the profile has; by default one with default values.
    """

    def __init__(self, config: NeuronConfig | None = None) -> None:
        self.config = NeuronConfig() if config is None else config
        self._profile: torch.profiler.profile | None = None

    @property
    def session_dir(self) -> Path | None:
        """Capture of the window finished last with this configuration; None before that, or when it failed."""
        finished = self._finished()
        return None if finished is None else finished.directory

    def export_trace(self, prof: Any) -> None:
        """Write the trace of the window that `prof` just finished, in virtual time, as `trace.json` in its capture.

        Does nothing but warn when there is no capture: a profile must not end the script it looks at.
        """
        finished = self._finished()
        if finished is None:
            warnings.warn(
                "trnscope: no trace was exported: the profile does not use this NeuronConfig. Pass the same object as "
                "experimental_config to torch.profiler.profile.",
                RuntimeWarning,
                stacklevel=2,
            )
        elif finished.directory is not None:
            try:
                _export(prof, finished, finished.directory)
            except OSError as error:
                warnings.warn(
                    f"trnscope: {finished.directory / CaptureLayout.TRACE} could not be written: "
                    f"{error.strerror or error}. The script goes on.",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def profile(self, **arguments: Any) -> torch.profiler.profile:
        """A `torch.profiler.profile` of CPU and device with this configuration that exports its traces.

        Args:
            arguments: further arguments of `torch.profiler.profile`.
        """
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
        defaults = {"activities": activities, "on_trace_ready": self.export_trace}
        return torch.profiler.profile(**(defaults | arguments), experimental_config=self.config)

    def start(self) -> None:
        """Begin to profile.

        Raises:
            RuntimeError: it is profiling already.
        """
        if self._profile is not None:
            raise RuntimeError("Profiler is already active")
        self._profile = self.profile()
        self._profile.start()

    def stop(self) -> None:
        """End profiling and write the capture.

        Raises:
            RuntimeError: it is not profiling.
        """
        if self._profile is None:
            raise RuntimeError("Profiler is not active")
        profile, self._profile = self._profile, None
        profile.stop()

    def is_active(self) -> bool:
        return self._profile is not None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _finished(self) -> Finished | None:
        return session.last_window(self.config.settings.to_string())


def _export(prof: Any, finished: Finished, directory: Path) -> None:
    # Kineto cannot write below every path that the file system allows (a line break in a name), so not below the user's
    with tempfile.TemporaryDirectory(prefix="trnscope-") as hidden:
        raw = Path(hidden) / CaptureLayout.TRACE
        prof.export_chrome_trace(str(raw))
        about = {"clock": "virtual", "host_mode": finished.host_mode, "is_simulation": True}
        trace = to_virtual(raw.read_bytes(), finished.mapping, about)
    replace_file(directory / CaptureLayout.TRACE, trace)
    manifest = open_capture(directory).manifest
    kept = [entry for entry in manifest.files if entry["path"] != CaptureLayout.TRACE]
    manifest.files = sorted([*kept, file_entry(directory, CaptureLayout.TRACE)], key=lambda entry: entry["path"])
    write_manifest(directory, manifest)
