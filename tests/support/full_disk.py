"""A disk that is full, as far as this process can tell."""

import resource
from contextlib import contextmanager


@contextmanager
def full_disk(most):
    """Let files have so many bytes at most: this limit of the process stands for a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
