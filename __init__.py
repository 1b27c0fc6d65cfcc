"""Scanline: inference for linear-transformer image models."""
