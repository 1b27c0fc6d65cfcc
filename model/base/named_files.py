"""Files that a user names: `-` is a standard stream, devices and pipes are written to and never
replaced, and a link keeps pointing to its file. Only files are read: a pipe waits for somebody to
write, and a device may have no end."""

import errno
import os
import sys
from collections.abc import Iterable
from math import inf
from pathlib import Path

from scanline.model.base.atomic import write_file, write_stream

STREAM = Path("-")
# and arrays of them
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".npy", ".npz")
MAX_INPUT = 1 << 32  # bytes of a file that is read whole
MAX_MESSAGE = 1000  # characters


class FileError(ValueError):
    """A file that is wrong; the message is one sentence for the user, short and printable whatever
    the file holds."""

    def __init__(self, message: str) -> None:
        super().__init__(
            "".join(char if char.isprintable() else "?" for char in message[:MAX_MESSAGE])
        )


def is_stream(path: Path) -> bool:
    """Return whether bytes go through `path` without staying there: a standard stream, a device or
    a pipe."""
    return (
        path == STREAM
        or path.is_relative_to("/dev")
        or (path.exists() and not path.is_file() and not path.is_dir())
    )


def check_file(path: Path, most: float = inf) -> None:
    """Raise OSError where something is there that is neither a file nor a link to one, or has more
    bytes than `most`; every reader of a stranger's file begins with this."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    if path.exists() and path.stat().st_size > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))


def read_file(path: Path, most: int = MAX_INPUT) -> bytes:
    """Return the content of a file; OSError where it is none or has more bytes than `most`."""
    check_file(path, most)
    return path.read_bytes()


def read_input(path: Path) -> bytes:
    """Return the bytes of a file, or of standard input."""
    return sys.stdin.buffer.read() if path == STREAM else read_file(path)


def check_output(out: Path, inputs: Iterable[Path] = (), *, may_be_folder: bool = False) -> None:
    """Raise ValueError, before any work, where nothing can be written at `out`,
    or one of the inputs would be lost: it is the same file, also by links, or it
    is in the folder that is written."""
    if is_stream(out):
        return
    if not out.absolute().parent.is_dir():
        raise ValueError(f"{out}: there is no directory {out.parent}")
    if not os.access(out if out.is_dir() else out.absolute().parent, os.W_OK):
        raise ValueError(f"{out} cannot be written: Permission denied")
    if not out.exists():
        return
    if out.is_dir() and not may_be_folder:
        raise ValueError(f"{out} is a folder; give the name of a file")
    folder = out.resolve()
    for path in inputs:
        if not path.exists():
            continue
        if path.samefile(out):
            raise ValueError(f"{out} is also an input, which would be lost; give another output")
        if path.is_file() and path.resolve().parent == folder:
            raise ValueError(
                f"{out} holds {path.name}, an input, with which the output would be mixed; give another"
            )


def check_no_picture(out: Path) -> None:
    """Raise ValueError where an output that is no picture has a name of one, which is somebody's
    picture then."""
    if out.suffix.lower() in PICTURES:
        raise ValueError(
            f"{out} has a name of a picture or an array, and the output is none; give another name"
        )


def write_output(path: Path, data: bytes) -> None:
    """Write to a stream, or replace a file, or the file that a link of the user's points to,
    atomically; another user's link, in a folder that all may write to, is not followed."""
    if path == STREAM:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    elif is_stream(path):
        write_stream(path, data)
    elif path.is_symlink() and path.lstat().st_uid not in (os.geteuid(), 0):
        write_file(path, data)
    else:
        write_file(Path(os.path.realpath(path)), data)
