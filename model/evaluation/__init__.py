"""Evaluation of a model: bits/dim of test images, and a report that compares its samples with test
images.

Every number of the samples is reported with the same number of test images, because none means
anything alone.
"""
