"""Pixels to distributions and back: configuration, network, output distribution, checkpoints, data,
training, and the generator that paints many images at once. Knows no HTTP."""
