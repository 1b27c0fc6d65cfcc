"""Weights of models as the page's kernel loads them, each exported once, in a process of its own.

The export needs torch and a second copy of the model: the child frees both when it
exits, and it cannot hold the event loop. The files are kept in memory, by the model's
identity, up to MAX_KEPT_BYTES in all.
"""

import asyncio
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from scanline.model.base.safe_path import ENVIRONMENT
from scanline.server.runtime import stderr
from scanline.server.runtime.secret_variables import public_variables

MAX_KEPT_BYTES = 256_000_000  # of all files; a larger file is an error
EXPORT_SECONDS = 180.0  # most of it imports torch, on a busy machine
CHUNK_BYTES = 2**20  # read, and added to the digest, at once
FAILED_SECONDS = 60.0  # for which a failed export is not tried again
TOO_LARGE = 4  # exit status of the child

Identity = tuple[str, str]  # a model's id and the digest of what is loaded


class ExportError(Exception):
    """A model could not be exported; the message is one sentence without its end."""


@dataclass(frozen=True)
class Exported:
    """An exported model and its entity tag."""

    file: bytearray  # not to be changed
    etag: str


class Exports:
    """The exported models of a server."""

    def __init__(
        self,
        command: Sequence[str] = (sys.executable, "-m", __name__),
        seconds: float = EXPORT_SECONDS,
    ):
        self.command = command
        self.seconds = seconds
        # the one that was used last is last
        self.kept: OrderedDict[Identity, Exported] = OrderedDict()
        self.failed: dict[Identity, tuple[float, Exception]] = {}  # until when not to try again
        self.exporting = asyncio.Lock()  # one export at a time: each loads a model

    async def get(self, identity: Identity, directory: Path, precision: str) -> Exported:
        """Return the file of a model. ExportError where there is none."""
        async with self.exporting:
            if identity not in self.kept:
                until, error = self.failed.get(identity, (0.0, None))
                if error is not None and time.monotonic() < until:
                    raise error
                try:
                    self.kept[identity] = await self._export(directory, precision)
                except ExportError as failure:
                    now = time.monotonic()
                    self.failed = {
                        name: failure for name, failure in self.failed.items() if failure[0] > now
                    }
                    self.failed[identity] = now + FAILED_SECONDS, failure
                    raise
            self.kept.move_to_end(identity)
            while sum(len(exported.file) for exported in self.kept.values()) > MAX_KEPT_BYTES:
                self.kept.popitem(last=False)
            return self.kept[identity]

    async def _export(self, directory: Path, precision: str) -> Exported:
        """Export in a child; it is killed where it takes too long, or where this task is cancelled.
        What the child reports goes to this process's standard error, as all logs do."""
        environment = public_variables() | ENVIRONMENT
        child = await asyncio.create_subprocess_exec(
            *self.command,
            str(directory),
            precision,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
        assert child.stdout is not None
        file = bytearray()
        digest = sha256()
        try:
            async with asyncio.timeout(self.seconds):
                while chunk := await child.stdout.read(CHUNK_BYTES):
                    file += chunk
                    digest.update(chunk)
                status = await child.wait()
        except TimeoutError:
            raise ExportError(f"The export took more than {self.seconds:g} seconds") from None
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        if status == TOO_LARGE:
            raise ExportError(f"The file is larger than {MAX_KEPT_BYTES} bytes")
        if status:
            raise ExportError("The export failed; the server's log has the details")
        return Exported(file, f'"{digest.hexdigest()[:32]}"')


def main() -> None:
    """Write the file of the model in the directory of the first argument, at the precision of the
    second, to the standard output."""
    stderr.install()
    os.nice(10)  # painting comes first
    os.environ["OMP_NUM_THREADS"] = "1"
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.formats.model_dir import read_info
    from scanline.model.sampling.kernel_file import kernel_file

    directory = Path(sys.argv[1])
    file = kernel_file(load_model(directory), sys.argv[2], read_info(directory))
    if len(file) > MAX_KEPT_BYTES:
        sys.exit(TOO_LARGE)
    sys.stdout.buffer.write(file)


if __name__ == "__main__":
    main()
