"""The only module that opens files to write, as tests/test_floors.py checks. A file is written
under a new name, which is then moved into place: there is the old content or the new one, whatever
happens meanwhile. A link or a pipe that somebody has put at its name is replaced, never followed.
"""

import errno
import os
import stat
import tempfile
from pathlib import Path


def write_file(path: Path, data: bytes | memoryview | str, *, durable: bool = True) -> None:
    """Replace the file at `path`; a kill leaves the old one.

    durable: it is on the disk once this returns; False for the many files of a
    folder, each of which would wait for it. OSError names `path`, also where the
    failing call did not know it (a full disk).
    """
    try:
        # O_EXCL and O_NOFOLLOW: nobody has planted it
        handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    temporary = Path(name)
    try:
        with open(handle, "wb") as file:
            os.fchmod(handle, _mode(path))
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            if durable:
                os.fsync(handle)
        os.replace(temporary, path)
    except OSError as error:
        if error.filename is None and error.errno is not None:  # write(2) reports no name
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_stream(path: Path, data: bytes) -> None:
    """Write to a device or a pipe that a user has named."""
    with path.open("wb") as file:
        file.write(data)


def make_folder(path: Path) -> None:
    """Make a folder below one that a user has named; OSError where a link there would lead out of
    it."""
    path.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, which may lead anywhere; remove it", str(path))


def _mode(path: Path) -> int:
    """Return the permissions of the file that is replaced, or those of new files."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0o666 & ~_umask()
    return status.st_mode & 0o777 if stat.S_ISREG(status.st_mode) else 0o666 & ~_umask()


def _umask() -> int:
    """Return the bits that new files do not get; reading them sets them."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
