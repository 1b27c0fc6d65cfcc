"""HTTPS: a certificate and its key, which connections that begin
after a change of the files get anew.

What the files held when they could last be used is kept, for processes
that are started when they are broken.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NoReturn

from scanline.model.base.named_files import read_file
from scanline.server.runtime.file_watch import FileWatch
from scanline.server.settings import Settings

MAX_FILE_BYTES = 1_000_000


class TlsCertificate:
    """`context` is what sockets are wrapped with; ValueError if the files cannot be used."""

    def __init__(self, cert: Path, key: Path) -> None:
        self.cert = cert
        self.key = key
        self.watch = FileWatch([cert, key], self.reload)
        self.context = _context()
        self.reload()

    def reload(self) -> None:
        """Use what the files hold now for new connections. ValueError, and
        no change, if they cannot be used.
        """
        try:
            pair = read_file(self.cert, MAX_FILE_BYTES), read_file(self.key, MAX_FILE_BYTES)
            # First into another context: one that fails to load is left with one
            # certificate and the key of another.
            _load(_context(), pair)
        except ssl.SSLError as error:
            is_mismatch = error.reason == "KEY_VALUES_MISMATCH"
            reason = (
                "the key is another certificate's"
                if is_mismatch
                else "they must be PEM, certificate and key"
            )
            raise ValueError(f"cannot use {self.cert} with {self.key}: {reason}") from None
        except OSError as error:
            raise ValueError(f"cannot read {self.cert} and {self.key}: {error.strerror}") from None
        _load(self.context, pair)
        self.pair = pair

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process can be sent."""
        return {name: value for name, value in vars(self).items() if name != "context"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.context = _context()
        _load(self.context, self.pair)


def tls_certificate(settings: Settings) -> TlsCertificate | None:
    """Return the certificate that the settings name; None for plain HTTP."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return TlsCertificate(settings.tls_cert, settings.tls_key)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, pair: tuple[bytes, bytes]) -> None:
    """Load a certificate and its key, from files, since OpenSSL takes no bytes."""
    with _file(pair[0]) as cert, _file(pair[1]) as key:
        context.load_cert_chain(cert, key, _refuse_password)


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Yield the path of a file with this content, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("tls"), "wb", 0) as file:
            file.write(content)
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with NamedTemporaryFile(buffering=0) as named:
            named.write(content)
            yield named.name


def _refuse_password() -> NoReturn:
    """OpenSSL calls this for an encrypted key, in place of asking at the terminal."""
    raise ValueError("the private key is encrypted: scanline needs one without a password")
