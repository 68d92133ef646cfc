"""Lowering: one file per op family, from an op to a Program."""

from trnscope.kernels.model import MODEL_VERSION, Modelled, content_key, model

__all__ = ["MODEL_VERSION", "Modelled", "content_key", "model"]
