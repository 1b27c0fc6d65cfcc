"""HTTPS: a certificate and its key, which connections that begin after a change of the files get anew."""

import ssl
from pathlib import Path
from typing import NoReturn

from scanline.server.process.file_watch import FileWatch
from scanline.server.settings import Settings


class TlsCertificate:
    """`context` is what sockets are wrapped with; ValueError if the files cannot be used."""

    def __init__(self, cert: Path, key: Path) -> None:
        self.cert, self.key = cert, key
        self.watch = FileWatch([cert, key], self.reload)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.set_alpn_protocols(["http/1.1"])
        self._load(self.context)

    def reload(self) -> None:
        """Use what the files hold now for new connections. ValueError, and no change, if they cannot be used."""
        # First into another context: one that fails to load is left with one certificate and the key of another.
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self._load(self.context)

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self.cert, self.key, _refuse_password)
        except ssl.SSLError as error:
            is_mismatch = error.reason == "KEY_VALUES_MISMATCH"
            reason = "the key is another certificate's" if is_mismatch else "they must be PEM, certificate and key"
            raise ValueError(f"cannot use {self.cert} with {self.key}: {reason}") from None
        except OSError as error:
            raise ValueError(f"cannot read {self.cert} and {self.key}: {error.strerror}") from None


def tls_certificate(settings: Settings) -> TlsCertificate | None:
    """Return the certificate that the settings name; None for plain HTTP."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return TlsCertificate(settings.tls_cert, settings.tls_key)


def _refuse_password() -> NoReturn:
    """OpenSSL calls this for an encrypted key, in place of asking at the terminal."""
    raise ValueError("the private key is encrypted: scanline needs one without a password")
