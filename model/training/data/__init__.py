"""Batches: which images and positions an update computes."""
