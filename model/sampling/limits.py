"""Bounds on what a caller may ask of sampling, the same for the API and the command line; imports no torch."""

import secrets

MAX_SEED = 2**63 - 1
DRAWN_SEED_BITS = 53  # of a seed that we draw: JavaScript reads it back without loss
MAX_TEMPERATURE = 2.0  # and above 0


def draw_seed() -> int:
    """Return a random seed for a caller who gave none."""
    return secrets.randbits(DRAWN_SEED_BITS)
