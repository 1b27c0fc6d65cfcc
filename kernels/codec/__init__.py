"""Lossless codes of images: the quantised CDFs of a step's distribution, and the arithmetic coder."""
