"""`scanline serve` as a process: what ends it; and what a command finds:
variables, streams, limits of open files.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest

from scanline.model.evaluation.classifier_cache import cache_directory
from scanline.server.cli import _open_standard_streams
from scanline.server.engine.local import engine_client
from scanline.server.environment import check
from tests.support.commands import in_a_process, refused
from tests.support.engine.engines import behind_gate
from tests.support.server.forked_server import AVAILABLE
from tests.support.server.running_server import Server, serve
from tests.support.server.shared_servers import LONG, arguments
from tests.support.server.sockets import GET_ASSETS, open_connection
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE, wait_for

UNSHARE = shutil.which("unshare")
CRASHES = len(engine_client.RESTART_DELAYS)
OPTIONS = {
    "slots": 1,
    "max-images-per-request": LONG,
    "max-waiting-images": LONG,
    "client-share": 1,
}
BUSY = arguments({**OPTIONS, "drain-seconds": 3600})


@contextmanager
def painting(server):
    """A client of minutes of work that has begun."""
    with connected(server.url) as painter:
        painter.send(type="generate", n=LONG)
        painter.receive()
        yield painter


def assert_left(server, status):
    """Assert that a server and its engine end, with that status and no traceback."""
    __tracebackhide__ = True
    assert server.wait_until_exited() == status
    assert "Traceback" not in server.log_text


def without_delays():
    engine_client.RESTART_DELAYS = (0.0,) * CRASHES


@pytest.mark.skipif(not AVAILABLE, reason="no fork server whose forks can be prepared")
def test_an_engine_that_is_killed_again_and_again_ends_the_server(grey_directory):
    killed = set()
    with (
        serve(grey_directory, *BUSY, prepare=without_delays) as server,
        painting(server) as painter,
    ):

        def kill_a_new_one():
            for engine in set(server.engines()) - killed:
                os.kill(engine, signal.SIGKILL)
                killed.add(engine)
            return server.process.poll() is not None

        wait_for(kill_a_new_one, "the end of the server")
        assert len(killed) >= CRASHES  # more, where one had finished an image before it was killed
        error = painter.receive_until_finished(1)[0].messages[-1]["error"]
        assert (error["type"], error["code"]) == ("server_error", "engine_failed")
        assert_left(server, 1)


def test_a_killed_server_takes_along_its_engine_with_work_and_one_that_stands_still(grey_directory):
    for stands_still in (False, True):
        with serve(grey_directory, *BUSY) as server, painting(server):
            if stands_still:
                os.kill(server.engine, signal.SIGSTOP)
            server.process.kill()
            assert_left(server, -signal.SIGKILL)


@pytest.fixture
def loading(tmp_path, grey_directory):
    """A server whose engine waits before a gate that is never opened."""
    (tmp_path / "config.json").write_bytes((grey_directory / "config.json").read_bytes())
    (tmp_path / "model.safetensors").touch()
    os.mkfifo(gate := tmp_path / "gate")
    server = Server(tmp_path, prepare=partial(behind_gate, gate))
    server.wait_until_listening()
    return server


@pytest.mark.skipif(not AVAILABLE, reason="no fork server whose forks can be prepared")
def test_a_killed_server_takes_along_an_engine_that_loads(loading):
    loading.process.kill()
    assert_left(loading, -signal.SIGKILL)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_server_and_engine_at_once(grey_directory, first):
    with serve(grey_directory, *BUSY) as server, painting(server):
        server.process.send_signal(first)
        wait_for(
            lambda: httpx.get(f"{server.url}/readyz", timeout=PATIENCE).status_code == 503,
            "a server that drains",
        )
        server.process.send_signal(signal.SIGINT)
        assert_left(server, 128 + signal.SIGINT)


@pytest.mark.slow
@pytest.mark.skipif(
    UNSHARE is None
    or bool(subprocess.run([UNSHARE, "-fp", "true"], capture_output=True, check=False).returncode),
    reason="this user may not create a PID namespace",
)
def test_a_second_signal_ends_a_server_that_is_process_1(grey_directory):
    """As in a container without an init: there the kernel ignores signals
    whose handler is the default one.
    """
    server = Server(grey_directory, *BUSY, command=(str(UNSHARE), "-fp", "--kill-child"))
    try:
        server.wait_until_ready()
        (first,) = (
            Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
            .read_text()
            .split()
        )
        assert Path(f"/proc/{first}/status").read_text().partition("NSpid:")[2].split()[:2] == [
            first,
            "1",
        ]
        with painting(server), server.client() as client:
            os.kill(int(first), signal.SIGTERM)
            wait_for(lambda: client.get("/readyz").status_code == 503, "a server that drains")
            os.kill(int(first), signal.SIGTERM)
            assert_left(server, 128 + signal.SIGTERM)
    finally:
        server.process.kill()


def test_ctrl_c_ends_an_idle_server_with_status_0(grey_directory):
    """A terminal's Ctrl-C goes to the engine too."""
    with serve(grey_directory) as server:
        os.kill(server.engine, signal.SIGINT)
        server.process.send_signal(signal.SIGINT)
        assert_left(server, 0)


def test_sigterm_ends_a_server_that_still_loads_with_status_0(loading):
    try:
        os.kill(loading.wait_for_engine(), signal.SIGINT)
    finally:
        loading.stop()
    assert_left(loading, 0)


def test_a_client_that_reads_no_file_of_the_page_delays_no_exit(grey_directory):
    with (
        serve(grey_directory, "--drain-seconds", "3600") as server,
        open_connection(server, receive_buffer=4096) as connection,
    ):
        connection.sendall(GET_ASSETS)
        assert connection.recv(12) == b"HTTP/1.1 200"
        server.process.send_signal(signal.SIGTERM)
        assert_left(server, 0)


MISSPELT = {
    "SCANLINE_API_KEY": "did you mean SCANLINE_API_KEYS",
    "SCANLINE_HTTP_PORT": "did you mean SCANLINE_PORT",
    "scanline_api_key": "did you mean SCANLINE_API_KEYS",
    "SCANLINE_TEMPERATURE": "the settings are SCANLINE_MODELS, ",
}
OF_KUBERNETES = {  # beside services named scanline and scanline-web
    "SCANLINE_SERVICE_HOST": "10.0.0.11",
    "SCANLINE_SERVICE_PORT": "8000",
    "SCANLINE_SERVICE_PORT_HTTP": "8000",
    "SCANLINE_PORT_8000_TCP": "tcp://10.0.0.11:8000",
    "SCANLINE_PORT_8000_TCP_ADDR": "10.0.0.11",
    "SCANLINE_WEB_PORT": "tcp://10.0.0.12:80",
    "SCANLINE_WEB_PORT_80_TCP_PORT": "80",
}


def test_a_misspelt_variable_is_refused_and_those_of_other_programs_pass():
    for name, said in MISSPELT.items():
        with pytest.raises(ValueError, match=f"{name} is not a setting: {said}"):
            check({name: "1"}, ())
    check(
        {
            "SCANLINE_API_KEYS": "a",
            "scanline_port": "8000",
            "PATH": "/bin",
            "SCAN": "1",
            "MY_SCANLINE_X": "1",
        },
        (),
    )
    check(OF_KUBERNETES, ())
    link = {"SCANLINE_PORT": "tcp://10.0.0.11:8000"}
    check(link, {"port"})
    with pytest.raises(ValueError, match="as Kubernetes sets it next to a service named scanline"):
        check(link, ())


def test_a_server_does_not_start_with_a_misspelt_variable(monkeypatch):
    monkeypatch.setenv("SCANLINE_API_KEY", "sk-secret")
    assert (
        refused("serve", "--port", "0")
        == "SCANLINE_API_KEY is not a setting: did you mean SCANLINE_API_KEYS?"
    )


def test_closed_standard_streams_are_opened():
    if not (child := os.fork()):
        status = 1
        try:
            for descriptor in range(3):
                os.close(descriptor)
            sys.stdin = sys.stdout = sys.stderr = None
            _open_standard_streams()
            print("seven", file=sys.stderr)
            status = int(sys.stdin.read() != "" or not all(map(os.get_inheritable, range(3))))
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_terminal_without_the_letters_gets_escapes(monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    ran = in_a_process("sample", "--class", "\u043b\u043e\u0448\u0430\u0434\u044c")
    assert ran.status == 2
    assert "\\u043b\\u043e" in ran.err


def test_no_home_directory_is_one_sentence(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError))
    with pytest.raises(ValueError, match="give --cache"):
        cache_directory()


CODE = """
import logging, resource
from scanline.server.process.running import within_descriptors
from scanline.server.settings import Settings
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 1000))
for connections in (100, 2000):
    settings = within_descriptors(Settings(max_connections=connections, max_websockets=100))
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], settings.max_connections, settings.max_websockets)
"""


def test_the_limit_is_raised_to_what_the_system_allows_and_fewer_connections_are_kept_and_logged():
    """In a process of its own, since a hard limit cannot be raised again."""
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 1000
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert ran.stdout == "1000 100 100\n1000 744 100\n"
    assert (
        ran.stderr
        == "a limit of 1000 files has room for 744 connections, not 2000: raise ulimit -n\n"
    )


def test_a_server_without_descriptors_logs_that_once_and_goes_on(grey_directory):
    with serve(grey_directory, "--slots", "1") as server, ExitStack() as stack:
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        few = len(os.listdir(f"/proc/{server.process.pid}/fd")) + 3
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (few, limits[1]))
        for _ in range(20):
            stack.enter_context(open_connection(server))
        server.wait_for_log("out of system resource")
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
        assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE).status_code == 200
        # of thousands; one every ten seconds
        assert server.log_text.count("out of system resource") < 5
