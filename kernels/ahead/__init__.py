"""Painting ahead on a GPU: what a pass of the network over several steps of each image reads, and
what is kept of it.

A draw is a function of seed, image and position, so a guess of the next bytes is checked exactly
and never changes a byte. `reference.py` is the law; `triton.py` does the same on the device, where
positions stay.
"""
