"""A server's own copy of a model's files: what happens to the model directory
later changes no model that is served.

The small files are copied by the server when it makes the copy; the weights by the first engine,
because they may take long. Every later engine loads from the copy. A copy is removed with its
server; one whose server was killed is removed by the next server that makes one.

Machines clean their temporary directories of what is some days old. A copy's files
never look old, and systemd leaves out a directory that is locked. What is gone
nevertheless is written again from the open files.
"""

import errno
import fcntl
import logging
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from threading import Lock

from scanline.model.base.named_files import MAX_INPUT, check_file, read_file
from scanline.model.formats import model_dir
from scanline.model.formats.model_dir import ModelDirectoryError, load_config, weight_files

PREFIX = "scanline-model-"
LOCK = "lock"  # of a copy; held as long as its server lives
SMALL_FILES = (
    model_dir.CONFIG,
    model_dir.INDEX,
    model_dir.EVALUATION,
    model_dir.GENERATION,
    model_dir.CLASS_HEAD,
)
CHUNK_BYTES = 1 << 20
KEEP_SECONDS = 3600.0  # less than the age of files that any machine removes

log = logging.getLogger("scanline.server")


class ModelCopy:
    """Invariant: until `remove`, or the end of this process, `directory` is
    there and no other server removes it.
    """

    def __init__(self, source: Path) -> None:
        """Copy those of the small files that there are; ValueError
        where there is no room for them.
        """
        try:
            _remove_abandoned()
            root = Path(tempfile.mkdtemp(prefix=PREFIX))
            self.files: dict[str, int] = {}  # descriptors by name
            self.keeping = Lock()
            # also called when the process exits
            self.remove = weakref.finalize(self, _remove, root, _locks(root), self.files)
            self.directory = root / source.name
            self.directory.mkdir()
            for name in SMALL_FILES:
                with suppress(FileNotFoundError, NotADirectoryError):
                    check_file(source / name, model_dir.MAX_SMALL_BYTES)
                    shutil.copy2(source / name, self.directory / name)
        except OSError as error:
            raise ValueError(
                f"{source} cannot be copied to {tempfile.gettempdir()}: {error.strerror}"
            ) from None

    def keep(self) -> None:
        """Open what is new, write again what is gone, and let all look new. Called once an engine
        has loaded it, before another one loads it, and each KEEP_SECONDS."""
        root = self.directory.parent
        try:
            with self.keeping:
                if not self.remove.alive:
                    return
                with suppress(FileExistsError):
                    root.mkdir(0o700)
                if root.lstat().st_uid != os.geteuid():
                    raise PermissionError(errno.EPERM, "another user has made it", str(root))
                self.directory.mkdir(exist_ok=True)
                for path in self.directory.iterdir():
                    if path.name not in self.files:
                        self.files[path.name] = os.open(path, os.O_RDONLY)
                for name, file in self.files.items():
                    path = self.directory / name
                    if not path.exists():
                        _write(file, path)
                    os.utime(path)
        except OSError as error:
            log.warning(
                "the copy of a model cannot be kept: %s: %s", error.filename, error.strerror
            )


def copy_weights(source: Path, target: Path) -> None:
    """Copy the weights to where the small files are already;
    ModelDirectoryError where the model is wrong.
    """
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
            raise ModelDirectoryError(
                f"{source / name} cannot be copied to {place}: {error.strerror}"
            ) from None
    for name in SMALL_FILES:
        if _content(source / name) != _content(target / name):
            raise ModelDirectoryError(
                f"{source / name} was changed while the model was read; try again"
            )


def _content(path: Path) -> bytes | None:
    try:
        return read_file(path, model_dir.MAX_SMALL_BYTES)
    except OSError:
        return None


def _locks(root: Path) -> list[int]:
    """Return the descriptors of a lock that is never seen unlocked while this
    process lives, and of the directory's.
    """
    descriptor = os.open(root / "new", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    (root / "new").rename(root / LOCK)
    directory = os.open(root, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    return [descriptor, directory]


def _write(file: int, path: Path) -> None:
    """Write what is in a file whose name is gone."""
    os.lseek(file, 0, os.SEEK_SET)
    part = path.with_name(f".{path.name}")  # an engine may be reading already
    with open(file, "rb", closefd=False) as read, part.open("wb") as written:
        shutil.copyfileobj(read, written, CHUNK_BYTES)
    part.replace(path)


def _remove(root: Path, locks: list[int], files: dict[str, int]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    for descriptor in (*locks, *files.values()):
        os.close(descriptor)


def _remove_abandoned() -> None:
    """Remove this user's copies whose servers were killed."""
    for root in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # it is another user's, or is being made or removed, or its server lives
        with suppress(OSError):
            if root.is_symlink() or root.stat().st_uid != os.geteuid():
                continue
            lock = os.open(root / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(root)
            finally:
                os.close(lock)
