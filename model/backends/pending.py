"""What a caller holds of work that a device does on its own."""

from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Pending(Generic[Result]):
    """Work that a device has been given. Its result, or its failure, is there once it has ended."""

    def __init__(self, result: Callable[[], Result]) -> None:
        """`result` waits for the work and returns what came of it; called once at most."""
        self._result = result
        self._ended: Result | None = None
        self._has_ended = False

    @classmethod
    def ended(cls, result: Result) -> "Pending[Result]":
        """Return work that was done at once."""
        return cls(lambda: result)

    def wait(self) -> Result:
        """Return the result, as often as it is asked for; raises what the work has raised."""
        if not self._has_ended:
            self._ended, self._has_ended = self._result(), True
        return self._ended  # type: ignore[return-value]
