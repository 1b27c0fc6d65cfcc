"""Pieces of a GPU's step whose law is a torch operation: embedding, LayerNorm, matrix product, launch chaining."""
