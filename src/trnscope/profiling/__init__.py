"""Profiling sessions: `NeuronConfig`, `ProfileMode`, `NeuronProfiler` and the captures that they leave."""

from trnscope.profiling.config import NeuronConfig
from trnscope.profiling.profiler import NeuronProfiler
from trnscope.profiling.session import install
from trnscope.profiling.settings import ProfileMode

__all__ = ["NeuronConfig", "NeuronProfiler", "ProfileMode"]

install()
