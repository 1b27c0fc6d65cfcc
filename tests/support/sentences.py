"""The answer to wrong arguments of the Python API: a ValueError whose message is one sentence."""

import pytest


def assert_says(sentence, call, *arguments):
    """Fail unless the call raises a ValueError with exactly this message."""
    with pytest.raises(ValueError, match=r".") as caught:
        call(*arguments)
    assert str(caught.value) == sentence
