"""HTTPS: a real server with a certificate, which is renewed while it runs; files that cannot be used."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from tests.support.commands import refused
from tests.support.server.infrastructure.certificates import write_certificate
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import Server, serve
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE, wait_for

Files = tuple[Path, Path]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    write_certificate(cert, key, "first")
    return cert, key


@pytest.fixture
def tls_server(files: Files, grey_directory: Path) -> Iterator[Server]:
    with serve(grey_directory, "--tls-cert", str(files[0]), "--tls-key", str(files[1])) as server:
        yield server


def subject(server: Server) -> str:
    """The name in the certificate that a new connection gets."""
    address = httpx.URL(server.url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((address.host, address.port), timeout=PATIENCE) as plain,
        context.wrap_socket(plain) as wrapped,
    ):
        found = x509.load_der_x509_certificate(wrapped.getpeercert(binary_form=True) or b"")
    return str(found.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)


def test_https_and_its_websocket_are_verified_by_clients_and_renewed_while_the_server_runs(
    tls_server: Server, files: Files
) -> None:
    cert, key = files
    assert tls_server.url.startswith("https://127.0.0.1:")
    assert f"API documentation at {tls_server.url}/docs" in "".join(tls_server.log)
    trusting = ssl.create_default_context(cafile=str(cert))
    with httpx.Client(base_url=tls_server.url, verify=trusting, timeout=PATIENCE) as client:
        own = {"origin": tls_server.url}
        assert client.post("/v1/images/generations", json={}, headers=own).status_code == 200
        with connected(tls_server.url, ssl=trusting, origin=tls_server.url) as websocket:
            assert websocket.paint(type="generate").order[-1] == "done"

            # A key that does not fit keeps the first certificate.
            write_certificate(key.parent / "other.pem", key, "other")
            wait_for(lambda: "the key is another certificate's" in "".join(tls_server.log), "a line about the key")
            assert subject(tls_server) == "first"

            # A new pair is used by new connections; the old ones go on.
            write_certificate(cert, key, "second")
            wait_for(lambda: subject(tls_server) == "second", "the second certificate")
            assert client.get("/healthz").status_code == 200
            assert websocket.paint(type="generate").order[-1] == "done"
    cert.unlink()
    wait_for(lambda: "No such file" in "".join(tls_server.log), "a line about the missing file")
    assert subject(tls_server) == "second"


def test_a_connection_without_a_handshake_counts_and_does_not_last(tls_server: Server) -> None:
    address = httpx.URL(tls_server.url)
    with (
        socket.create_connection((address.host, address.port), timeout=PATIENCE) as silent,
        tls_server.client() as client,
    ):
        assert Metrics(client).of("connections") == 2
        silent.send(b"\x16\x03\x01")
        assert silent.recv(1) == b"", "it ends before the time of a request"
        assert Metrics(client).of("connections") == 1


def test_plain_http_to_an_https_server_ends_and_harms_nothing(tls_server: Server) -> None:
    with pytest.raises(httpx.HTTPError):
        httpx.get(tls_server.url.replace("https", "http"), timeout=PATIENCE)
    with tls_server.client() as client:
        assert client.get("/healthz").status_code == 200
    assert "Traceback" not in "".join(tls_server.log)


def test_files_that_cannot_be_used_are_refused_in_a_sentence(files: Files, tmp_path: Path) -> None:
    cert, key = map(str, files)
    assert refused("serve", "--tls-cert", cert) == "--tls-cert and --tls-key belong together: give both or none"
    assert refused("serve", "--tls-key", key) == "--tls-cert and --tls-key belong together: give both or none"
    assert refused("serve", "--tls-cert", "nowhere.pem", "--tls-key", key) == "--tls-cert: there is no file nowhere.pem"
    swapped = refused("serve", "--tls-cert", key, "--tls-key", cert)
    assert swapped == f"cannot use {key} with {cert}: they must be PEM, certificate and key"
    write_certificate(tmp_path / "other.pem", tmp_path / "other.key", "other")
    assert refused("serve", "--tls-cert", cert, "--tls-key", tmp_path / "other.key").endswith("another certificate's")
    write_certificate(files[0], files[1], "locked", password=b"secret")
    assert "the private key is encrypted" in refused("serve", "--tls-cert", cert, "--tls-key", key)
