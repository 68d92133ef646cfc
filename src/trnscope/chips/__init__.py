"""Chip data files: every figure with unit, kind, source and sigma."""
