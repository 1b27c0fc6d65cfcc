"""API keys: each has a name, under which its holder appears in the log, the metrics and quotas.

Keys come from the settings, where they are named key-1, key-2, ..., and from a file of
lines NAME KEY that may be changed while the server runs. Two keys may have the same
name: a key is replaced by adding the new one, and removing the old one when it is not
used any more. No message contains a key.
"""

import hashlib
import logging
import re
import secrets
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import SecretStr

from scanline.server.runtime.file_watch import FileWatch
from scanline.server.settings import KEY, Settings

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_FILE_BYTES = 1_000_000
MAX_KEYS = 10_000  # bounds the label values of the metrics as well

log = logging.getLogger("scanline.server")


class ApiKeys:
    """Names by key; ValueError if the file is broken, or there is no key at the start."""

    def __init__(self, unnamed: Sequence[SecretStr] = (), path: Path | None = None) -> None:
        self.unnamed = {
            key.get_secret_value(): f"key-{number}" for number, key in enumerate(unnamed, 1)
        }
        self.path = path
        self.watch = None if path is None else FileWatch([path], self.reload)
        self.on_reload: list[Callable[[], None]] = []  # called after a change
        self.reload()
        if not self.by_digest:
            raise ValueError(f"{path}: there is no key in this file")

    def reload(self) -> None:
        """Read the file now, which may revoke all of its keys. ValueError if it is
        broken; the keys of before stay.
        """
        keys = self.unnamed | ({} if self.path is None else read_keys(self.path))
        # Keys are looked up by a digest that needs the secret: the time of a
        # look-up reveals nothing about the keys.
        secret = secrets.token_bytes(32)
        self.secret = secret
        self.by_digest = {_digest(key.encode(), secret): name for key, name in keys.items()}
        for changed in self.on_reload:
            changed()

    def name_of(self, key: bytes) -> str | None:
        """Return the name of a key that a client sent; None if it is not one of ours."""
        return self.by_digest.get(_digest(key, self.secret))

    @property
    def names(self) -> list[str]:
        """All names, each once, in the order of the keys."""
        return list(dict.fromkeys(self.by_digest.values()))

    def __len__(self) -> int:
        return len(self.by_digest)


def api_keys(settings: Settings) -> ApiKeys | None:
    """Return the keys that the settings ask for; None if no key is needed."""
    if not settings.api_keys and settings.api_keys_file is None:
        return None
    return ApiKeys(settings.api_keys, settings.api_keys_file)


def read_keys(path: Path) -> dict[str, str]:
    """Return the names by key of a file; ValueError, with the line's number, if it is broken."""
    keys: dict[str, str] = {}
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, *rest = line.split()
        if len(rest) != 1 or not NAME.fullmatch(name) or not KEY.fullmatch(rest[0]):
            raise ValueError(
                f"{path}: line {number} must be a name of letters, digits, dots, dashes and underscores, a space, and"
                " a key of printable ASCII without commas"
            )
        if keys.setdefault(rest[0], name) != name:
            raise ValueError(f"{path}: line {number} repeats a key under another name")
    if len(keys) > MAX_KEYS:
        raise ValueError(f"{path}: there are more than {MAX_KEYS} keys in this file")
    return keys


def _text(path: Path) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait for its writer
            raise ValueError(f"{path}: this is not a file")
        if status.st_size > MAX_FILE_BYTES:
            raise ValueError(f"{path}: the file is larger than {MAX_FILE_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: this is not a text file") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if status.st_mode & stat.S_IROTH:
        log.warning("%s: everyone on this machine can read the API keys; chmod o-r", path)
    return text


def _digest(key: bytes, secret: bytes) -> bytes:
    return hashlib.blake2b(key, key=secret, digest_size=32).digest()
