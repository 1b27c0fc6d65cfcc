"""The real server: `scanline serve` as a process of its own, on a port that the system chooses."""

import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.support.server.forked_server import AVAILABLE, ForkedServer
from tests.support.waiting import PATIENCE, wait_for

SCANLINE = Path(sys.executable).with_name("scanline")
UNIX = "unix socket "
# another line may follow at once
LISTENS = re.compile(r"Serving .+? at (https?://\S+|unix socket \S+?\.sock)")


class Server:
    """A server process; it may still be loading, or have exited."""

    def __init__(self, model, *options, command=(), forked=True, prepare=None):
        """`command` starts the server in place of a fork; not `forked`: the
        installed command starts it. `prepare` is a function of a module, called in
        the server's process before it starts."""
        arguments = ["--model", str(model), "--port", "0", "--threads", "1", *options]
        self.process: ForkedServer | subprocess.Popen[str]
        if AVAILABLE and forked and not command:
            self.process = ForkedServer(arguments, prepare)
        else:
            assert prepare is None, "only a fork can be prepared"
            argv = [*command, str(SCANLINE), "serve", *arguments]
            self.process = subprocess.Popen(
                argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        self.log = []
        self.url = ""
        self._listens = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_until_listening(self):
        assert self._listens.wait(PATIENCE), "the server does not start"
        assert self.url, self.log_text

    def wait_until_ready(self):
        self.wait_until_listening()

        def is_ready():
            assert self._reader.is_alive(), self.log_text
            return client.get("/readyz").status_code == 200

        with self.client() as client:
            wait_for(is_ready, "a server that is ready")

    def client(self, **options):
        """A client of the server, also on a unix socket, and with TLS
        without looking at the certificate.
        """
        options = {"timeout": PATIENCE, "verify": False, **options}
        if self.url.startswith(UNIX):
            transport = httpx.HTTPTransport(uds=self.url.removeprefix(UNIX))
            return httpx.Client(base_url="http://localhost", transport=transport, **options)
        return httpx.Client(base_url=self.url, **options)

    def wait_until_exited(self):
        """The server's exit status, once neither it nor its engine holds the log open."""
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert not self._reader.is_alive(), "the server has exited, its engine has not"
        return status

    @property
    def log_text(self):
        return "".join(self.log)

    def wait_for_log(self, text):
        wait_for(lambda: text in self.log_text, f"{text!r} in the log")

    @property
    def engine(self):
        (engine,) = self.engines()
        return engine

    def wait_for_engine(self, after=None):
        """The process id of the engine, once there is one that is not `after`."""
        return wait_for(
            lambda: next((pid for pid in self.engines() if pid != after), 0), "an engine"
        )

    def engines(self):
        """The process ids of its running engines; none while an engine is being restarted."""
        return self._children("scanline-engine")

    def api_processes(self):
        """The process ids of those that speak HTTP, where they are not the server's own process."""
        return self._children("scanline-api")

    def _children(self, name):
        return [pid for pid in descendants(self.process.pid) if process_name(pid) == name]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.wait_until_exited()
        finally:
            self.process.kill()

    def _read(self):
        for line in self.process.stdout:
            self.log.append(line)
            if found := LISTENS.search(line):
                self.url = found[1]
                self._listens.set()
        self._listens.set()
        self.process.stdout.close()


def descendants(pid):
    """The process ids of the children of a process, and of theirs; none where it has ended."""
    children = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # that thread has ended
                children += map(int, (thread / "children").read_text().split())
    return [process for child in children for process in (child, *descendants(child))]


def process_name(process):
    """The name that a process shows; empty where it has ended."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def command_line(process):
    """The command of a process, its arguments separated by spaces;
    empty where the process has ended.
    """
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@contextmanager
def serve(model, *options, forked=True, prepare=None):
    """Yield a server that is ready, for as long as the context lasts."""
    server = Server(model, *options, forked=forked, prepare=prepare)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def client_of(server, **options):
    """A fixture: a client of the server that is the fixture of that name."""

    @pytest.fixture
    def client(request):
        with request.getfixturevalue(server).client(**options) as client:
            yield client

    return client
