"""Runs a script or a module as `python` would: same arguments, import path, `__main__`, traceback and exit code."""

import builtins
import runpy
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path

INTERRUPTED = 130


def run_script(script: Path, arguments: Sequence[str]) -> int:
    """Run a file as `python script arguments…`; the result is its exit code."""
    path = script.absolute()
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=str(path), __builtins__=builtins)
    sys.argv = [str(script), *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = str(path.resolve().parent)
    # Kept in place afterwards: threads, exit handlers and pickles of the script look their names up there
    sys.modules["__main__"] = main

    def run() -> None:
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), main.__dict__)

    return _exit_code(run)


def run_module(name: str, arguments: Sequence[str]) -> int:
    """Run a module as `python -m name arguments…`; the result is its exit code."""
    sys.argv = [name, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = str(Path.cwd())
    return _exit_code(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True))


def _exit_code(run: Callable[[], object]) -> int:
    """Run, and treat what is raised as the interpreter does: SystemExit is a code, the rest a traceback and 1."""
    try:
        run()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0
