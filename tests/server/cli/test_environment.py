"""What a command finds: SCANLINE_* variables, standard streams that are closed, limits of open files."""

import os
import resource
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest

from scanline.model.evaluation.classifier_cache import cache_directory
from scanline.server.cli import _open_standard_streams
from scanline.server.environment import check
from tests.support.commands import in_a_process, refused
from tests.support.server.running_server import serve
from tests.support.server.sockets import open_connection
from tests.support.waiting import PATIENCE, wait_for

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


def test_a_misspelt_variable_is_refused_and_those_of_other_programs_pass() -> None:
    for name, said in MISSPELT.items():
        with pytest.raises(ValueError, match=f"{name} is not a setting: {said}"):
            check({name: "1"}, ())
    check({"SCANLINE_API_KEYS": "a", "scanline_port": "8000", "PATH": "/bin", "SCAN": "1", "MY_SCANLINE_X": "1"}, ())
    check(OF_KUBERNETES, ())
    link = {"SCANLINE_PORT": "tcp://10.0.0.11:8000"}
    check(link, {"port"})
    with pytest.raises(ValueError, match="as Kubernetes sets it next to a service named scanline"):
        check(link, ())


def test_a_server_does_not_start_with_a_misspelt_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCANLINE_API_KEY", "sk-secret")
    said = refused("serve", "--port", "0")
    assert said == "SCANLINE_API_KEY is not a setting: did you mean SCANLINE_API_KEYS?"


def test_closed_standard_streams_are_opened() -> None:
    if not (child := os.fork()):
        status = 1
        try:
            for descriptor in range(3):
                os.close(descriptor)
            sys.stdin = sys.stdout = sys.stderr = None  # type: ignore[assignment]
            _open_standard_streams()
            print("seven", file=sys.stderr)
            status = int(sys.stdin.read() != "" or not all(map(os.get_inheritable, range(3))))
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_terminal_without_the_letters_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    ran = in_a_process("sample", "--class", "\u043b\u043e\u0448\u0430\u0434\u044c")
    assert ran.status == 2
    assert "\\u043b\\u043e" in ran.err


def test_no_home_directory_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_limit_is_raised_to_what_the_system_allows_and_fewer_connections_are_kept_and_logged() -> None:
    """In a process of its own, since a hard limit cannot be raised again."""
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 1000
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert ran.stdout == "1000 100 100\n1000 744 100\n"
    assert ran.stderr == "the limit of 1000 open files has room for 744 connections, not 2000: raise ulimit -n\n"


def test_a_server_without_descriptors_logs_that_once_and_goes_on(grey_directory: Path) -> None:
    with serve(grey_directory, "--slots", "1") as server, ExitStack() as stack:
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        few = len(os.listdir(f"/proc/{server.process.pid}/fd")) + 3
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (few, limits[1]))
        for _ in range(20):
            stack.enter_context(open_connection(server))
        wait_for(lambda: "out of system resource" in "".join(server.log), "a line in the log")
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
        assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE).status_code == 200
        assert "".join(server.log).count("out of system resource") < 5  # of thousands; one every ten seconds
