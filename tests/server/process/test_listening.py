"""Where a server listens: both families, all addresses of a name, a unix socket; what is printed."""

import socket
import stat
from pathlib import Path

import httpx
import pytest

from scanline.server.process.listening import Listening, listen
from scanline.server.settings import Settings
from tests.support.commands import refused
from tests.support.server.running_server import Server, serve
from tests.support.waiting import wait_for

LOCAL_FAMILIES = {found[0] for found in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}


def families(listening: Listening) -> set[socket.AddressFamily]:
    """The families of the sockets, which must have one port."""
    assert len({one.getsockname()[1] for one in listening.sockets}) == 1
    return {one.family for one in listening.sockets}


def reaches(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=10):
            return True
    except OSError:
        return False


def test_all_addresses_of_both_families_are_served_by_one_host() -> None:
    with listen(Settings(host="::", port=0)) as listening:
        port = listening.sockets[0].getsockname()[1]
        assert listening.url == f"http://[::]:{port}"
        assert not listening.is_local
        assert reaches("127.0.0.1", port)
        assert reaches("::1", port) or not socket.has_dualstack_ipv6()
    with listen(Settings(host="0.0.0.0", port=0)) as listening:
        assert not listening.is_local


def test_a_name_is_served_on_all_its_addresses_with_one_port() -> None:
    with listen(Settings(host="localhost", port=0)) as listening:
        assert families(listening) == LOCAL_FAMILIES
        assert listening.is_local
        port = listening.sockets[0].getsockname()[1]
        assert listening.url == f"http://localhost:{port}"


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_an_ipv6_address_is_local_and_printed_in_brackets() -> None:
    with listen(Settings(host="::1", port=0)) as listening:
        port = listening.sockets[0].getsockname()[1]
        assert (listening.url, listening.is_local) == (f"http://[::1]:{port}", True)
        assert not reaches("127.0.0.1", port)


def test_a_port_or_address_that_is_not_ours_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused("serve", "--port", port) == f"cannot listen on 127.0.0.1:{port}: Address already in use"
    assert refused("serve", "--host", "192.0.2.1").startswith("cannot listen on 192.0.2.1:8000: ")
    assert refused("serve", "--host", "no.such.host.invalid").startswith("cannot listen on no.such.host.invalid:8000: ")


def test_responses_do_not_wait_for_acknowledgements() -> None:
    with (
        listen(Settings(port=0)) as listening,
        socket.create_connection(listening.sockets[0].getsockname()),
    ):
        accepted, _ = listening.sockets[0].accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_server_on_ipv6_answers_and_knows_its_names(grey_directory: Path) -> None:
    with serve(grey_directory, "--host", "::") as server, server.client() as client:
        port = httpx.URL(server.url).port
        for host in ("127.0.0.1", "localhost"):
            assert httpx.get(f"http://{host}:{port}/v1/models").status_code == 200
        assert client.get("/v1/models").status_code == 200


def test_a_unix_socket_is_served_replaced_when_stale_and_removed(grey_directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "scanline.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    path.chmod(0o666)
    with serve(grey_directory, "--unix-socket", str(path)) as server, server.client() as client:
        assert server.url == f"unix socket {path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert client.post("/v1/images/generations", json={}).status_code == 200
        assert client.get("/v1/models", headers={"host": "evil.example"}).status_code == 421
        wait_for(lambda: any("client=unix" in line for line in server.log), "a line of the log")
        said = refused("serve", "--unix-socket", path)
        assert said == f"cannot listen on {path}: another server does"
    assert not path.exists()


def test_a_new_unix_socket_is_for_its_owner_and_group_and_a_killed_server_leaves_it(
    grey_directory: Path, tmp_path: Path
) -> None:
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


def test_a_path_that_cannot_be_a_unix_socket_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    said = refused("serve", "--unix-socket", tmp_path / "file")
    assert said == f"cannot listen on {tmp_path}/file: there is a file that is not a socket"
    assert (tmp_path / "file").read_text() == "kept"
    said = refused("serve", "--unix-socket", tmp_path / "none" / "socket")
    assert said == f"--unix-socket: there is no directory {tmp_path}/none"
    assert "107 bytes at most" in refused("serve", "--unix-socket", tmp_path / ("long" * 40))
