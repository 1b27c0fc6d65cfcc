"""Where a server listens: both families, all addresses of a name, a unix socket,
HTTPS with a renewed certificate.
"""

import socket
import ssl
import stat

import httpx
import pytest
from cryptography import x509

from scanline.server.process.listening import listen
from scanline.server.settings import Settings
from tests.support.commands import refused
from tests.support.server.infrastructure.certificates import write_certificate
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import Server, serve
from tests.support.server.sockets import open_connection
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE, wait_for

LOCAL_FAMILIES = {found[0] for found in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}


def reaches(address, port):
    try:
        with socket.create_connection((address, port), timeout=10):
            return True
    except OSError:
        return False


@pytest.mark.parametrize(
    ("host", "shown", "is_local"),
    [
        ("::", "[::]", False),
        ("0.0.0.0", "0.0.0.0", False),
        ("localhost", "localhost", True),
        ("::1", "[::1]", True),
    ],
)
def test_all_addresses_of_a_host_are_served_with_one_port(host, shown, is_local):
    if host == "::1" and not socket.has_ipv6:
        pytest.skip("needs IPv6")
    with listen(Settings(host=host, port=0)) as listening:
        (port,) = {one.getsockname()[1] for one in listening.sockets}
        assert (listening.url, listening.is_local) == (f"http://{shown}:{port}", is_local)
        assert reaches("127.0.0.1", port) == (host != "::1")
        assert reaches("::1", port) or not socket.has_dualstack_ipv6() or not host.startswith("::")
        if host == "localhost":
            assert {one.family for one in listening.sockets} == LOCAL_FAMILIES


def test_a_port_or_address_that_is_not_ours_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert (
            refused("serve", "--port", port)
            == f"cannot listen on 127.0.0.1:{port}: Address already in use"
        )
    for host in ("192.0.2.1", "no.such.host.invalid"):
        assert refused("serve", "--host", host).startswith(f"cannot listen on {host}:8000: ")


def test_responses_do_not_wait_for_acknowledgements():
    with (
        listen(Settings(port=0)) as listening,
        socket.create_connection(listening.sockets[0].getsockname()),
        listening.sockets[0].accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_server_on_ipv6_answers_and_knows_its_names(grey_directory):
    with serve(grey_directory, "--host", "::") as server, server.client() as client:
        port = httpx.URL(server.url).port
        for host in ("127.0.0.1", "localhost"):
            assert httpx.get(f"http://{host}:{port}/v1/models").status_code == 200
        assert client.get("/v1/models").status_code == 200


def test_a_unix_socket_is_served_replaced_when_stale_and_removed(grey_directory, tmp_path):
    path = tmp_path / "scanline.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    path.chmod(0o666)
    with serve(grey_directory, "--unix-socket", str(path)) as server, server.client() as client:
        assert server.url == f"unix socket {path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert client.post("/v1/images/generations", json={}).status_code == 200
        assert client.get("/v1/models", headers={"host": "evil.example"}).status_code == 421
        server.wait_for_log("client=unix")
        assert (
            refused("serve", "--unix-socket", path)
            == f"cannot listen on {path}: another server does"
        )
    assert not path.exists()


def test_a_killed_server_leaves_a_unix_socket_of_its_owner_and_group(grey_directory, tmp_path):
    path = tmp_path / "scanline.sock"
    server = Server(grey_directory, "--unix-socket", str(path))
    server.wait_until_ready()
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    server.process.kill()
    server.wait_until_exited()
    assert path.exists()
    with listen(Settings(unix_socket=path)) as listening:
        assert (listening.url, listening.is_local) == (None, True)
    assert not path.exists()


def test_another_server_s_socket_at_the_same_path_stays(tmp_path):
    path = tmp_path / "scanline.sock"
    with socket.socket(socket.AF_UNIX) as other:
        with listen(Settings(unix_socket=path)):
            path.unlink()
            other.bind(str(path))
        assert path.is_socket()


def test_a_path_that_cannot_be_a_unix_socket_is_refused(tmp_path):
    (tmp_path / "file").write_text("kept")
    said = refused("serve", "--unix-socket", tmp_path / "file")
    assert said == f"cannot listen on {tmp_path}/file: there is a file that is not a socket"
    assert (tmp_path / "file").read_text() == "kept"
    said = refused("serve", "--unix-socket", tmp_path / "none" / "socket")
    assert said == f"--unix-socket: there is no directory {tmp_path}/none"
    assert "107 bytes at most" in refused("serve", "--unix-socket", tmp_path / ("long" * 40))


@pytest.fixture
def files(tmp_path):
    cert = tmp_path / "cert.pem"
    key = tmp_path / "key.pem"
    write_certificate(cert, key, "first")
    return cert, key


@pytest.fixture
def tls_server(files, grey_directory):
    with serve(grey_directory, "--tls-cert", str(files[0]), "--tls-key", str(files[1])) as server:
        yield server


def subject(server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with open_connection(server) as plain, context.wrap_socket(plain) as wrapped:
        found = x509.load_der_x509_certificate(wrapped.getpeercert(binary_form=True) or b"")
    return str(found.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)


def test_https_and_its_websocket_are_verified_and_renewed_in_a_running_server(tls_server, files):
    cert, key = files
    assert tls_server.url.startswith("https://127.0.0.1:")
    assert f"API documentation at {tls_server.url}/docs" in tls_server.log_text
    trusting = ssl.create_default_context(cafile=str(cert))
    with tls_server.client(verify=trusting) as client:
        assert (
            client.post(
                "/v1/images/generations", json={}, headers={"origin": tls_server.url}
            ).status_code
            == 200
        )
        with connected(tls_server.url, ssl=trusting, origin=tls_server.url) as websocket:
            assert websocket.paint().last == "done"
            # A key that does not fit keeps the first certificate.
            write_certificate(key.parent / "other.pem", key, "other")
            tls_server.wait_for_log("the key is another certificate's")
            assert subject(tls_server) == "first"
            # A new pair is used by new connections; the old ones go on.
            write_certificate(cert, key, "second")
            wait_for(lambda: subject(tls_server) == "second", "the second certificate")
            assert client.get("/healthz").status_code == 200
            assert websocket.paint().last == "done"
    cert.unlink()
    tls_server.wait_for_log("No such file")
    assert subject(tls_server) == "second"


def test_a_connection_without_a_handshake_counts_and_does_not_last(tls_server):
    with open_connection(tls_server) as silent, tls_server.client() as client:
        assert Metrics(client).of("connections") == 2
        silent.send(b"\x16\x03\x01")
        assert silent.recv(1) == b"", "it ends before the time of a request"
        assert Metrics(client).of("connections") == 1


def test_plain_http_to_an_https_server_ends_and_harms_nothing(tls_server):
    with pytest.raises(httpx.HTTPError):
        httpx.get(tls_server.url.replace("https", "http"), timeout=PATIENCE)
    with tls_server.client() as client:
        assert client.get("/healthz").status_code == 200
    assert "Traceback" not in tls_server.log_text


def test_files_that_cannot_be_used_are_refused_in_a_sentence(files, tmp_path):
    cert, key = map(str, files)
    for one in (("--tls-cert", cert), ("--tls-key", key)):
        assert (
            refused("serve", *one) == "--tls-cert and --tls-key belong together: give both or none"
        )
    assert (
        refused("serve", "--tls-cert", "nowhere.pem", "--tls-key", key)
        == "--tls-cert: there is no file nowhere.pem"
    )
    swapped = refused("serve", "--tls-cert", key, "--tls-key", cert)
    assert swapped == f"cannot use {key} with {cert}: they must be PEM, certificate and key"
    write_certificate(tmp_path / "other.pem", tmp_path / "other.key", "other")
    assert refused("serve", "--tls-cert", cert, "--tls-key", tmp_path / "other.key").endswith(
        "another certificate's"
    )
    write_certificate(files[0], files[1], "locked", password=b"secret")
    assert "the private key is encrypted" in refused("serve", "--tls-cert", cert, "--tls-key", key)
