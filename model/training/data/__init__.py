"""Batches: which images and positions an update computes, and digits that are redrawn."""
