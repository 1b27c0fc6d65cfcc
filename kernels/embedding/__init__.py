"""Bytes and places to vectors: sums of rows of tables."""
