"""Runs a script on the modelled neuron device and profiles it as a whole.

    trnscope run train.py --epochs 1
    trnscope run --chip trn2 --lnc 1 -m package.module

The script runs as under plain `python`: its output, traceback and exit code are its own. Where it profiles itself,
its own profiler is used. The capture's directory is printed to standard error at the end.
"""

import argparse
import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trnscope import TrnscopeError, config, presence
from trnscope.commands.as_main import run_module, run_script
from trnscope.compat import finder
from trnscope.schema.vocabulary import CHIPS

if TYPE_CHECKING:
    from trnscope.profiling.script import ScriptProfiler

SETTINGS = {
    "chip": "TRNSCOPE_CHIP",
    "instance": "TRNSCOPE_INSTANCE",
    "lnc": "TRNSCOPE_LNC",
    "host_mode": "TRNSCOPE_HOST",
    "compute": "TRNSCOPE_COMPUTE",
}
"""Option -> variable that hands it down to the device and to child processes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    device = parser.add_argument_group("the modelled device")
    device.add_argument("--chip", choices=CHIPS, help="generation (default: that of the instance)")
    device.add_argument("--instance", metavar="TYPE", help="instance type (default: the smallest of the chip)")
    device.add_argument("--lnc", type=int, choices=(1, 2), help="physical NeuronCores per logical one")
    device.add_argument(
        "--host-mode",
        choices=("measured", "modelled"),
        help="Python between ops takes its real time (measured, the default) or none (modelled: reproducible)",
    )
    device.add_argument(
        "--shapes-only", dest="compute", action="store_const", const="shapes", help="compute no values, only shapes"
    )
    capture = parser.add_argument_group("the capture")
    capture.add_argument("--out", type=Path, default=Path("output"), metavar="DIR", help="default: ./output")
    capture.add_argument("--with-stack", action="store_true", help="record Python stacks and nn.Module paths")
    capture.add_argument("--record-shapes", action="store_true", help="record shapes in the framework's trace")
    capture.add_argument("--profile-memory", action="store_true", help="record allocations in the framework's trace")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="script to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script")


def execute(options: argparse.Namespace) -> int:
    """Run the script; the result is its exit code."""
    if not options.module and not Path(options.script).is_file():
        raise TrnscopeError(f"there is no script {options.script}.", "Name a file, or a module with -m.")
    for option, variable in SETTINGS.items():
        if (value := getattr(options, option)) is not None:
            os.environ[variable] = str(value)
    settings = config.resolve()
    if (real := presence.real_device() or presence.real_package()) is not None:
        print(f"trnscope: found {real}: the script runs on the real backend, unprofiled.", file=sys.stderr)
        return _run(options)
    if settings.off:
        print("trnscope: TRNSCOPE_OFF=1: the script runs without the modelled device.", file=sys.stderr)
        return _run(options)
    finder.install()
    return _run_profiled(options)


def _run(options: argparse.Namespace) -> int:
    if options.module:
        return run_module(options.script, options.arguments)
    return run_script(Path(options.script), options.arguments)


def _run_profiled(options: argparse.Namespace) -> int:
    output = options.out.absolute()  # the script may change its directory
    profiler = _profiler(options, output)
    process = os.getpid()
    profiler.start()
    try:
        return _run(options)
    finally:
        if os.getpid() == process:  # a fork of the script that comes back here owns no window
            profiler.stop()
            _tell(profiler, output)


def _profiler(options: argparse.Namespace, output: Path) -> "ScriptProfiler":
    """The profiler of the whole script. Importing it imports torch and registers the device."""
    if importlib.util.find_spec("torch") is None:
        raise TrnscopeError("torch is not installed.", "`trnscope doctor` says how to install the right one.")
    from trnscope.profiling import NeuronConfig
    from trnscope.profiling.script import ScriptOptions, ScriptProfiler, ensure_device

    if not ensure_device():
        raise TrnscopeError("the neuron device is not available.", "`trnscope doctor` says why and how to mend it.")
    return ScriptProfiler(
        NeuronConfig(profile_output_dir=output, correlate_device_time=True),
        ScriptOptions(options.with_stack, options.record_shapes, options.profile_memory),
    )


def _tell(profiler: "ScriptProfiler", output: Path) -> None:
    """Where the capture is, on standard error: standard output is the script's."""
    from trnscope.profiling.script import captures_of_this_process

    if profiler.stood_down:
        print("trnscope: the script profiles itself, so its own profiler was used.", file=sys.stderr)
    for directory in captures_of_this_process(output):
        print(f"trnscope: capture in {directory}\n  trnscope summary {shlex.quote(str(directory))}", file=sys.stderr)
