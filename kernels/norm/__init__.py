"""Normalisation of rows, where no product takes it along."""

EPSILON = 1e-5  # added to the variance, as torch.nn.LayerNorm does
