"""Parameters of a test: a few that always run, and those that only a sweep with `-m slow` adds."""

import pytest


def and_slow(always, *swept):
    """Return the parameters `always`, and `swept` marked slow; a tuple
    is one set of several arguments.
    """
    return always + [
        pytest.param(*(values if isinstance(values, tuple) else (values,)), marks=pytest.mark.slow)
        for values in swept
    ]
