"""Chip data files: every figure with unit, kind, source and sigma."""

from trnscope.chips.figures import Chip, Figure, load_chip
from trnscope.chips.target import HostCosts, Target

__all__ = ["Chip", "Figure", "HostCosts", "Target", "load_chip"]
