"""A server's own copy of a model's files: what happens to the model directory later changes no model that is served.

The small files are copied by the server when it makes the copy; the weights by the first engine, because they may take
long. Every later engine loads from the copy. A copy is removed with its server; one whose server was killed is removed
by the next server that makes one.
"""

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

from scanline.model.formats import model_dir
from scanline.model.formats.model_dir import ModelDirectoryError, load_config, weight_files
from scanline.model.named_files import MAX_INPUT, check_file, read_file

PREFIX = "scanline-model-"
LOCK = "lock"  # of a copy; held as long as its server lives
SMALL_FILES = (model_dir.CONFIG, model_dir.INDEX, model_dir.EVALUATION, model_dir.GENERATION, model_dir.CLASS_HEAD)
CHUNK_BYTES = 1 << 20


class ModelCopy:
    """Invariant: until `remove`, or the end of this process, `directory` is there and no other server removes it."""

    def __init__(self, source: Path) -> None:
        """Copy those of the small files that there are; ValueError where there is no room for them."""
        try:
            _remove_abandoned()
            root = Path(tempfile.mkdtemp(prefix=PREFIX))
            self.remove = weakref.finalize(self, _remove, root, _lock(root))  # also called when the process exits
            self.directory = root / source.name
            self.directory.mkdir()
            for name in SMALL_FILES:
                with suppress(FileNotFoundError, NotADirectoryError):
                    check_file(source / name, model_dir.MAX_SMALL_BYTES)
                    shutil.copy2(source / name, self.directory / name)
        except OSError as error:
            raise ValueError(f"{source} cannot be copied to {tempfile.gettempdir()}: {error.strerror}") from None


def copy_weights(source: Path, target: Path) -> None:
    """Copy the weights to where the small files are already; ModelDirectoryError where the model is wrong."""
    load_config(target)
    place = tempfile.gettempdir()  # `target` would be shown as the directory of the model itself
    for name in weight_files(target):
        try:
            check_file(source / name, MAX_INPUT)
            with (source / name).open("rb") as read, (target / name).open("wb") as written:
                shutil.copyfileobj(read, written, CHUNK_BYTES)
        except FileNotFoundError:
            raise ModelDirectoryError(f"{source / name} is missing") from None
        except OSError as error:
            raise ModelDirectoryError(f"{source / name} cannot be copied to {place}: {error.strerror}") from None
    for name in SMALL_FILES:
        if _content(source / name) != _content(target / name):
            raise ModelDirectoryError(f"{source / name} was changed while the model was read; try again")


def _content(path: Path) -> bytes | None:
    try:
        return read_file(path, model_dir.MAX_SMALL_BYTES)
    except OSError:
        return None


def _lock(root: Path) -> int:
    """Return the descriptor of a lock that is never seen unlocked while this process lives."""
    descriptor = os.open(root / "new", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    (root / "new").rename(root / LOCK)
    return descriptor


def _remove(root: Path, lock: int) -> None:
    shutil.rmtree(root, ignore_errors=True)
    os.close(lock)


def _remove_abandoned() -> None:
    """Remove this user's copies whose servers were killed."""
    for root in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is another user's, or is being made or removed, or its server lives
            if root.is_symlink() or root.stat().st_uid != os.geteuid():
                continue
            lock = os.open(root / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(root)
            finally:
                os.close(lock)
