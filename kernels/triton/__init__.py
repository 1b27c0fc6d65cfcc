"""Triton kernels of operations that torch has: embedding, LayerNorm and its moments, matrix product; torch is their
reference. `pdl.py` chains their launches; `sampling.py` holds what the kernels that sample share.
"""
