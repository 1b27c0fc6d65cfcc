"""Hosts in namespaces: each has a network, files and processes of its own, and leaves nothing behind."""

import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hosts.hosts import Host, hosts
from tests.support.waiting import PATIENCE, wait_for

SERVE = "import socket; s = socket.create_server(('', 80)); c, _ = s.accept(); c.sendall(c.recv(1)); c.close()"
LISTENS = re.compile(r": 0{8}:0050 0{8}:0000 0A")  # port 80 of all addresses, in state LISTEN
CALL = "import socket; s = socket.create_connection(('two', 80)); s.sendall(b'a'); assert s.recv(1) == b'a'"


def serve_one_byte(host: Host) -> None:
    """Start a server on the host that returns one byte of one connection; return once it listens."""
    host.run("bash", "-c", f'python3 -c "{SERVE}" >/dev/null 2>&1 &')
    wait_for(lambda: LISTENS.search(host.path(Path("/proc/1/net/tcp")).read_text()), "a server on the host")


def called(host: Host) -> socket.socket:
    """A connection to the server."""
    return socket.create_connection((host.address, 80), timeout=0.2)


@pytest.fixture(scope="module")
def two(namespaces: None) -> Iterator[dict[str, Host]]:
    with hosts("one", "two") as found:
        yield found


def test_a_host_reaches_another_by_name_and_this_process_reaches_both(two: dict[str, Host]) -> None:
    serve_one_byte(two["two"])
    two["one"].run("python3", "-c", CALL)
    serve_one_byte(two["one"])
    with called(two["one"]) as connection:
        connection.sendall(b"a")
        assert connection.recv(1) == b"a"


def test_a_host_that_is_cut_off_is_silent_and_keeps_its_connections(two: dict[str, Host]) -> None:
    host = two["one"]
    serve_one_byte(host)
    with called(host) as connection:
        host.cut()
        connection.sendall(b"a")
        with pytest.raises(TimeoutError):
            connection.recv(1)
        host.heal()
        connection.settimeout(PATIENCE)
        assert connection.recv(1) == b"a"  # it was sent again


def test_hosts_that_are_parted_do_not_reach_each_other_and_this_process_reaches_both(two: dict[str, Host]) -> None:
    two["one"].part(two["two"])
    serve_one_byte(two["two"])
    two["one"].run("bash", "-c", "! timeout 0.2 bash -c '</dev/tcp/two/80'")
    with called(two["two"]) as connection:
        connection.sendall(b"a")
        assert connection.recv(1) == b"a"
    two["one"].join(two["two"])
    serve_one_byte(two["two"])
    two["one"].run("python3", "-c", CALL)


def test_a_paused_host_goes_on(two: dict[str, Host]) -> None:
    host = two["one"]
    serve_one_byte(host)
    with called(host) as connection:
        host.pause()
        connection.sendall(b"a")
        with pytest.raises(TimeoutError):
            connection.recv(1)
        host.resume()
        connection.settimeout(PATIENCE)
        assert connection.recv(1) == b"a"


def test_a_host_has_files_and_processes_of_its_own(two: dict[str, Host], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in ("/tmp", "/dev/shm", "/srv"):
        two["one"].run("touch", f"{folder}/of-one-host")
        assert "of-one-host" not in two["two"].run("ls", folder)
        assert not Path(folder, "of-one-host").exists()
    two["one"].copy(tmp_path, Path("/srv/copied"))
    assert two["one"].run("ls", "/srv/copied") == "file\n"
    with subprocess.Popen(two["one"].command("sleep", "1000")) as sleeping:
        wait_for(two["one"].processes, "a process on the host")
        assert not two["two"].processes()
        two["one"].kill()
        sleeping.wait()
    assert not two["one"].processes()


def test_nothing_is_left(namespaces: None) -> None:
    links, mounts = set(Path("/sys/class/net").iterdir()), Path("/proc/self/mounts").read_text()
    with hosts("alone") as found:
        first = found["alone"].first
        running = subprocess.Popen(found["alone"].command("sleep", "1000"))
        wait_for(found["alone"].processes, "a process on the host")
    assert running.wait() != 0
    assert not Path(f"/proc/{first}").exists()
    assert set(Path("/sys/class/net").iterdir()) == links
    assert Path("/proc/self/mounts").read_text() == mounts
