"""Secret variables: this process keeps them, and the processes that it starts do not get them.

A process starts with the C library's environment, of which `os.environ` is a copy. One that
needs a secret gets it by its pipe.
"""

import os
import re

SECRET = re.compile(r"(^|_)(KEYS?|TOKENS?|SECRETS?|CREDENTIALS?|HEADERS)(_|$)|PASSW", re.IGNORECASE)


def withhold() -> None:
    """Let the processes that are started from now on have no secret of this one's environment."""
    for name in secret_variables():
        os.unsetenv(name)


def secret_variables(prefix: str = "") -> dict[str, str]:
    """Return those of `os.environ` whose name begins so."""
    return {
        name: value
        for name, value in os.environ.items()
        if SECRET.search(name) and name.startswith(prefix)
    }


def public_variables() -> dict[str, str]:
    """Return the environment of a process that needs no secret."""
    secret = secret_variables()
    return {name: value for name, value in os.environ.items() if name not in secret}


def forget(variable: str) -> None:
    """Remove a variable that has been read, however its letters are written."""
    for name in list(os.environ):
        if name.upper() == variable:
            del os.environ[name]
