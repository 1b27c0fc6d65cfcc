"""Atomic writes: a file has its old content or its new one, whatever happens while it is written."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Call `write` with a temporary path, then move the file there to `path`; a kill leaves the old file.

    OSError names `path`, also where the failing call did not know it (a full disk).
    """
    # Opened anew under a name that nobody can have planted a link at, with the mode of the file that it replaces.
    handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    os.fchmod(handle, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.filename is None and error.errno is not None:  # write(2) reports no name
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """Return the bits that new files do not get; reading them sets them."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
