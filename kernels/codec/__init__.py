"""Lossless codes of images: the law that makes a step's distribution whole numbers, and the arithmetic coder."""
