"""Hooks of a window: which nn.Module and which phase the ops of a thread belong to, and where steps end."""

import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle


class Recorder(Protocol):
    """The part of the device extension that is used."""

    def set_current_module(self, module: int) -> int: ...
    def set_optimizer_phase(self, on: bool) -> bool: ...
    def record_mark(self, number: int) -> None: ...


class ModuleTable:
    """Modules seen in a window, by path from the outermost module called; ids count up from 1."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.types: list[str] = []
        self.parents: list[int | None] = []
        self._ids: dict[tuple[str, str], int] = {}
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, dict[int, str]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def enter(self, module: torch.nn.Module, outer: list[tuple[torch.nn.Module, int]]) -> int:
        """Id of a module that is called inside of the calls `outer`, outermost first."""
        kind = type(module).__name__
        if not outer:
            path, parent = kind, None
        else:
            root, parent = outer[0][0], outer[-1][1]
            name = self._names_of(root).get(id(module))
            root_path = self.paths[outer[0][1] - 1]
            # A module that is no registered child (built on the fly) hangs below its caller.
            path = f"{root_path}.{name}" if name else f"{self.paths[parent - 1]}.{kind}"
        with self._lock:
            known = self._ids.get((path, kind))
            if known is not None:
                return known
            self.paths.append(path)
            self.types.append(kind)
            self.parents.append(parent)
            self._ids[path, kind] = len(self.paths)
            return len(self.paths)

    def _names_of(self, root: torch.nn.Module) -> dict[int, str]:
        names = self._names.get(root)
        if names is None:
            names = {id(module): name for name, module in root.named_modules()}
            self._names[root] = names
        return names


class WindowHooks:
    """Installs the hooks on `install` and takes them all away again on `remove`.

    Args:
        recorder: the device extension.
        modules: follow nn.Module calls; costs some microseconds per call.
    """

    def __init__(self, recorder: Recorder, *, modules: bool) -> None:
        self.modules = ModuleTable()
        self._recorder = recorder
        self.follow_modules = modules
        self._calls = threading.local()
        self._handles: list[RemovableHandle] = []
        self._restore_step: Callable[[], None] = lambda: None

    def install(self) -> None:
        self._handles = [
            register_optimizer_step_pre_hook(lambda *_: self._set_phase(on=True)),
            register_optimizer_step_post_hook(lambda *_: self._set_phase(on=False)),
        ]
        if self.follow_modules:
            self._handles += [
                register_module_forward_pre_hook(self._enter_module),
                register_module_forward_hook(self._leave_module, always_call=True),
            ]
        self._restore_step = _follow_steps(self._recorder)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._restore_step()
        # A step or a forward pass that was left by an error never reached its second hook.
        self._recorder.set_optimizer_phase(False)
        self._recorder.set_current_module(0)

    def _set_phase(self, *, on: bool) -> None:
        if not torch.compiler.is_compiling():
            self._recorder.set_optimizer_phase(on)

    def _enter_module(self, module: torch.nn.Module, _inputs: Any) -> None:
        if _is_passed_over(module):
            return
        calls = self._stack()
        number = self.modules.enter(module, calls)
        calls.append((module, number))
        self._recorder.set_current_module(number)

    def _leave_module(self, module: torch.nn.Module, _inputs: Any, _output: Any) -> None:
        if _is_passed_over(module):
            return
        calls = self._stack()
        # Calls that began before the window have no entry; those left by an error inside have one too many.
        while calls and any(entry[0] is module for entry in calls):
            if calls.pop()[0] is module:
                break
        self._recorder.set_current_module(calls[-1][1] if calls else 0)

    def _stack(self) -> list[tuple[torch.nn.Module, int]]:
        if not hasattr(self._calls, "stack"):
            self._calls.stack = []
        stack: list[tuple[torch.nn.Module, int]] = self._calls.stack
        return stack


def _is_passed_over(module: torch.nn.Module) -> bool:
    """Dynamo traces hooks, and nothing of this belongs into a graph; its wrapper is no module of the user's."""
    return torch.compiler.is_compiling() or type(module).__name__ == "OptimizedModule"


def _follow_steps(recorder: Recorder) -> Callable[[], None]:
    """Marks the end of each step of a profiler in the log; returns what undoes it. torch has no hook for it."""
    kind = torch.profiler.profile
    original = kind.step
    count = 0

    def step(self: torch.profiler.profile) -> None:
        nonlocal count
        recorder.record_mark(count)
        count += 1
        original(self)

    kind.step = step

    def restore() -> None:
        if kind.step is step:
            kind.step = original

    return restore
