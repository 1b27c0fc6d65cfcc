"""`scanline serve` in a fork of a process that has imported it, which takes
a tenth of a start's processor time.

The fork server from which engines are forks (server/engine/worker/forkserver.py) imports all of
the server here, and servers are forks of it, too. Each of them forks a fork server for its own
engines and API processes. A worker of xdist imports the same modules for its tests: its fork
server is a fork of it. A test that looks at a server's memory, its command or its imports starts
it with `forked=False`, as a user does.
"""

import atexit
import ctypes
import importlib
import logging
import multiprocessing
import multiprocessing.context
import multiprocessing.process
import os
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing import forkserver
from multiprocessing.connection import arbitrary_address

from scanline.server.engine.worker.forkserver import CONTEXT, PRELOADED, start
from scanline.server.runtime.child_process import PR_SET_PDEATHSIG
from scanline.server.runtime.signals import HANDLED

# later fork servers ask for a key
AVAILABLE = sys.platform == "linux" and sys.version_info < (3, 14)
if AVAILABLE:
    PRELOADED += [
        "scanline.model.sampling.base.generator",
        "scanline.server.api.base.api_keys",
        "scanline.server.cli.app",
        "scanline.server.process.workers.api_process",
        "scanline.server.process.workers.supervisor",
        "scanline.server.process.tls",
        "pydantic.v1",  # which FastAPI imports when an application is built
        "pytest",  # the main module of the tests, which each process of multiprocessing imports
    ]


def fork_this_process():
    """Import what a fork server has imported, and make it a fork of this process,
    which has no threads of torch yet.
    """
    for module in PRELOADED:
        importlib.import_module(module)
    _start_fork_server()


class ForkedServer:
    """A server process, with the part of Popen's interface that tests use."""

    def __init__(self, arguments, prepare=None):
        """`prepare` is called in the server's process before it
        starts, such as to shorten its limits.
        """
        receiving, sending = CONTEXT.Pipe(duplex=False)
        self.stdout = os.fdopen(os.dup(receiving.fileno()))
        given = (list(arguments), dict(os.environ), os.getcwd(), sending, prepare)
        self._process = CONTEXT.Process(target=_run, args=given, name="scanline-server")
        start(self._process)
        for end in (receiving, sending):
            end.close()
        multiprocessing.process._children.discard(self._process)  # tests end it
        self.pid = self._process.pid

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired("scanline serve", timeout or 0)
        return status

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _run(arguments, environment, directory, output, prepare):
    """Run `scanline serve ARGUMENTS` in this process, as the installed
    command would in that environment.
    """
    for standard in (1, 2):
        os.dup2(output.fileno(), standard)
    output.close()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _start_fork_server()
    contexts = multiprocessing.context._concrete_contexts
    contexts["spawn"] = multiprocessing.get_context("forkserver")
    from scanline.server.cli import main

    if prepare is not None:
        prepare()
    sys.argv = ["scanline", "serve", *arguments]
    status = 1
    try:
        main()
    except SystemExit as stop:
        status = stop.code or 0
    except BaseException:
        logging.getLogger("scanline.server").exception("the server has failed")
    finally:  # as an interpreter that exits, not as a process of multiprocessing
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _start_fork_server():
    """Fork a fork server off this process, without what pytest has
    redirected; it ends with this process.
    """
    server = forkserver._forkserver
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address := arbitrary_address("AF_UNIX"))
    listener.listen()
    alive, held = os.pipe()
    parent = os.getpid()
    if not (process := os.fork()):
        os.close(held)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        sys.stdout = sys.__stdout__
        sys.stderr = sys.__stderr__
        sys.unraisablehook = sys.__unraisablehook__
        threading.excepthook = threading.__excepthook__
        if os.getppid() == parent:
            forkserver.main(listener.detach(), alive, preload=[])
        os._exit(0)
    os.close(alive)
    listener.close()
    server._forkserver_address = address
    server._forkserver_alive_fd = held
    server._forkserver_pid = process
