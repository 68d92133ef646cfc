"""Keeps trnscope's own start-up out of what torch traces."""

import functools
from typing import Any

import numpy as np
import torch

from trnscope.runtime.connection import Runtime
from trnscope.schema.records import LOG_DTYPE

_installed = False


def warm_up(runtime: Runtime) -> None:
    """Import and compile what a profiling window needs, and fold the log so far."""
    from trnscope.graph.spec import OpSpec
    from trnscope.kernels import model

    runtime.windows  # noqa: B018  made at first use
    timeline = runtime.timeline
    timeline.flush()
    timeline.place(np.empty(0, LOG_DTYPE), np.empty(0, np.int64), "modelled")
    model(OpSpec("aten::relu", (), ()), timeline.durations.programs.target)


def install(runtime: Runtime) -> None:
    """Warm up before a profile begins to trace; done once per process, at the first profile.

    Done inside of the window, torch's `with_stack` would follow the imports: that costs seconds and hundreds of
    thousands of rows, and torch then reads names of modules whose code is gone by then. torch has no hook before it
    begins to trace, so a method of its profiler is wrapped; torch is pinned and a test covers it.
    """
    global _installed
    if _installed:
        return
    _installed = True
    kind = torch.autograd.profiler.profile
    begin = kind._prepare_trace

    @functools.wraps(begin)
    def prepare_trace(self: Any) -> None:
        try:
            warm_up(runtime)
        finally:
            kind._prepare_trace = begin
            begin(self)

    kind._prepare_trace = prepare_trace
