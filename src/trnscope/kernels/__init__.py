"""Lowering: one file per op family, from an op to a Program."""
