"""Files that a user names: `-` is a standard stream, devices and pipes are written to and never replaced, and a link
keeps pointing to its file."""

import os
import sys
from pathlib import Path

from scanline.model.atomic import write_atomically

STREAM = Path("-")


def is_stream(path: Path) -> bool:
    """Return whether bytes go through `path` without staying there: a standard stream, a device or a pipe."""
    return path == STREAM or path.is_relative_to("/dev") or (path.exists() and not path.is_file() and not path.is_dir())


def read_input(path: Path) -> bytes:
    """Return the bytes of a file, or of standard input."""
    return sys.stdin.buffer.read() if path == STREAM else path.read_bytes()


def write_output(path: Path, data: bytes) -> None:
    """Write to a stream, or replace a file, or the file that a link points to, atomically."""
    if path == STREAM:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    elif is_stream(path):
        path.write_bytes(data)
    else:
        write_atomically(Path(os.path.realpath(path)), lambda temporary: temporary.write_bytes(data))
