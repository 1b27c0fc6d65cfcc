"""The answer to wrong arguments of the Python API: a ValueError whose message is one sentence."""

from collections.abc import Callable
from typing import Any

import pytest


def assert_says(sentence: str, call: Callable[..., Any], *arguments: Any) -> None:
    """Fail unless the call raises a ValueError with exactly this message."""
    with pytest.raises(ValueError, match=r".") as caught:
        call(*arguments)
    assert str(caught.value) == sentence
