"""Triton kernels of operations that torch has: embedding, LayerNorm and its moments, matrix
product; torch is their reference. `pdl.py` chains their launches; `sampling.py` has the common
parts of the kernels that sample."""
