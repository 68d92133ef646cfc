"""Builds the torch extension when torch is there to build against; without torch the viewer installs alone.

Build with `pip install --no-build-isolation`, so that the extension is built against the torch that will load it.
`TRNSCOPE_BUILD_EXTENSION=0` leaves the extension out, `=1` makes a missing torch an error.
"""

import os
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

CSRC = Path("src/trnscope/device/csrc")
STARTUP_HOOK = "src/trnscope_compat.pth"
FLAGS = ["-O2", "-std=c++20", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
DEFINES = [("USE_KINETO", "1"), ("FMT_HEADER_ONLY", "1")]


def extension() -> tuple[list[object], dict[str, type]]:
    """The extension modules and the command that builds them, or none."""
    wanted = os.environ.get("TRNSCOPE_BUILD_EXTENSION", "auto")
    if wanted == "0":
        return [], {}
    try:
        import torch
        from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths
    except ImportError:
        if wanted == "1":
            raise
        print("trnscope: torch is not installed in the build environment: building the viewer without the device")
        return [], {}
    stamp = CSRC / "build_torch_version.h"
    text = f'#pragma once\n#define TRNSCOPE_TORCH_VERSION "{torch.__version__}"\n'
    if not stamp.exists() or stamp.read_text() != text:
        stamp.write_text(text)
    includes = include_paths()
    module = CppExtension(
        "trnscope.device._C",
        sorted(str(path) for path in CSRC.rglob("*.cpp")),
        # -isystem keeps warnings of torch's own headers out of -Werror
        extra_compile_args=[*FLAGS, *(f"-isystem{p}" for p in includes), f"-isystem{includes[0]}/kineto"],
        define_macros=DEFINES,
        extra_link_args=["-Wl,--no-undefined-version", "-s"],
        depends=sorted(str(path) for path in CSRC.rglob("*.h")),
    )
    return [module], {"build_ext": BuildExtension}


class BuildWithStartupHook(build_py):
    """Puts the `.pth` file at the root of the wheel, which every installer unpacks into site-packages."""

    def run(self) -> None:
        super().run()
        # An editable build lays its wheel out where `install` would install to; build_lib is the checkout itself
        root = self.get_finalized_command("install").install_lib if self.editable_mode else self.build_lib
        self.copy_file(STARTUP_HOOK, str(Path(root) / Path(STARTUP_HOOK).name))


modules, build_ext = extension()
setup(ext_modules=modules, cmdclass={"build_py": BuildWithStartupHook, **build_ext})
