"""Registers the device when torch is imported, and never breaks that import.

PyTorch calls `_autoload` through the entry point group `torch.backends`. Whatever is wrong becomes one line on
standard error that names the fix: an exception here would make every `import torch` fail.
"""

import importlib.util
import mmap
import sys
from pathlib import Path
from types import ModuleType

from trnscope import config, presence
from trnscope.errors import TrnscopeError

_VERSION_MARK = b"trnscope-built-against-torch="

_registered = False


def _autoload() -> None:
    """Registers the device, or says in one line why not."""
    global _registered
    if _registered:
        return
    try:
        settings = config.resolve()
        if settings.off:
            return
        real = presence.real_device() or presence.real_package()
        if real is not None:
            _say(f"found {real}: trnscope steps aside for the real backend, its own device is not registered")
            return
        register(settings)
        _registered = True
    except TrnscopeError as error:
        _say(f"the neuron device is not available: {error.what}. {error.hint}".strip())
    except Exception as error:
        _say(f"the neuron device is not available: {type(error).__name__}: {error}. Run `trnscope doctor`.")


def is_registered() -> bool:
    """Whether the device was registered in this process."""
    return _registered


def load_extension() -> ModuleType:
    """The extension, after checking that it was built against the torch that is running.

    Raises:
        TrnscopeError: it is missing, does not load, or was built against another torch.
    """
    import torch

    built = _built_against()
    if built is not None and _release(built) != _release(torch.__version__):
        raise TrnscopeError(
            f"the extension was built against torch {built}, but torch {torch.__version__} is running",
            f"Install torch {_release(built)}, or reinstall trnscope with `pip install --no-build-isolation`.",
        )
    try:
        from trnscope.device import _C
    except ImportError as error:
        raise TrnscopeError(
            f"the extension does not load ({error})",
            "Reinstall trnscope with `pip install --no-build-isolation` beside the torch you use.",
        ) from error
    return _C


def register(settings: config.Settings) -> None:
    """Registers the device with torch.

    Raises:
        TrnscopeError: the extension is missing or does not fit the running torch.
    """
    import torch

    from trnscope.runtime import connection, profiler_guard, warmup

    extension = load_extension()
    extension.configure(
        device_count=settings.device_count,
        hbm_bytes=settings.hbm_bytes,
        shapes_only=settings.compute == "shapes",
        launch_blocking=settings.launch_blocking,
        multiple_streams=settings.multiple_streams,
    )
    extension.register_host_kernels()
    runtime = connection.connect(
        extension, chip=settings.chip, lnc=settings.lnc, instance=settings.instance, host_mode=settings.host_mode
    )
    warmup.install(runtime)
    profiler_guard.install()
    if settings.compute == "shapes":
        import torch._meta_registrations  # many shape functions are written in Python
    torch.utils.rename_privateuse1_backend("neuron")
    from trnscope.device import neuron

    torch._register_device_module("neuron", neuron)
    torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_storage=True)


def _built_against() -> str | None:
    """The torch version of the build, read from the file without loading it: a mismatch could corrupt memory silently.

    None when there is no extension or it carries no version.
    """
    spec = importlib.util.find_spec("trnscope.device._C")
    if spec is None or spec.origin is None:
        return None
    with Path(spec.origin).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(_VERSION_MARK)
        if start < 0:
            return None
        start += len(_VERSION_MARK)
        return content[start : content.find(b"\0", start)].decode()


def _release(version: str) -> str:
    return version.partition("+")[0]


def _say(text: str) -> None:
    print(f"trnscope: {text}", file=sys.stderr)
