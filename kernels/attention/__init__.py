"""Causal linear attention over a whole sequence (eq. 8-15): the parallel form, for training, scoring
and prefill. `reference.py` is the law, `chunked.py` the working way; one signature."""

from kernels.attention.chunked import causal_linear_attention

__all__ = ["causal_linear_attention"]
