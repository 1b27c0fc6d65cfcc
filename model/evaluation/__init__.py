"""What a model's images are worth beside real ones: distances, shares and pictures for one report.

A small classifier of the same data looks at both; every figure of samples stands beside the same figure of test
images, since none of them means anything alone.
"""
