"""Children of this process never import from the working directory, which may hold anybody's files.

Python puts it first on the path of a process that it starts by `-c` or `-m`, as
multiprocessing does, unless the variable says otherwise. Each start of a Python process is
within `safe_path`, or gets ENVIRONMENT.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "PYTHONSAFEPATH"
ENVIRONMENT = {VARIABLE: "1"}


@contextmanager
def safe_path() -> Iterator[None]:
    """Give the variable to processes that are started within the block, and theirs;
    those of a caller that are started later do not have it, since a script's own
    folder leaves the path by it as well."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = ENVIRONMENT[VARIABLE]
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
