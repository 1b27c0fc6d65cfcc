"""What a user sent cannot be: one sentence, the parameter it is about, a code that programs can read.

The API answers it with 400; the command line prints its sentence and exits with 2.
"""


class InvalidInput(ValueError):  # noqa: N818 (it is no fault)
    """One wrong value."""

    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.message, self.param, self.code = message, param, code
