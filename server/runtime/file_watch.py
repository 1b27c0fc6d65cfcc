"""Watch on files, so that keys and certificates are renewed without a restart.

Polls: notifications do not work on network file systems, nor for the symbolic links by which
Kubernetes replaces a mounted secret.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

POLL_SECONDS = 1.0

log = logging.getLogger("scanline.server")
Signature = tuple[tuple[int, int, int] | None, ...]


class FileWatch:
    """Some files that are read together by `reload`, which raises ValueError and
    changes nothing if they are broken.

    Made before the files are first read, so that no change
    between that and the first poll is missed.
    """

    def __init__(self, paths: Sequence[Path], reload: Callable[[], None]) -> None:
        self.paths = paths
        self.reload = reload
        self.seen = self.signature()

    def signature(self) -> Signature:
        """Return what differs once a file was written or replaced;
        None for a file that does not exist.
        """
        return tuple(_signature(path) for path in self.paths)

    async def run(self) -> None:
        """Reload after every change, until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            now = await asyncio.to_thread(self.signature)  # a network file system may take its time
            if now != self.seen:
                self.reload_or_log()

    def reload_or_log(self) -> None:
        """Read the files now; where they are broken, log that and
        keep the previous content in use.
        """
        self.seen = self.signature()  # first: a change meanwhile is read at the next poll
        names = " and ".join(str(path) for path in self.paths)
        try:
            self.reload()
        except ValueError as error:
            log.error("%s; the previous content stays in use", error)
        else:
            log.info("read %s again", names)


def _signature(path: Path) -> tuple[int, int, int] | None:
    with suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino
    return None
