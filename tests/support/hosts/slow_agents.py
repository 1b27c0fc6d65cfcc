"""Time for Ray's agents to start on a machine whose processors others use.

A raylet ends itself where its agents have not written their ports to files after 15 seconds, and no setting changes
that. On a busy machine they take longer: their raylet is stopped meanwhile, and reads the files when it goes on.
"""

import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.hosts.hosts import Host
from tests.support.server.running_server import command_line, descendants, process_name

NODE = re.compile(r"--node_id=(\w+)")
LAST_PORTS = ("dashboard_agent_listen_port", "runtime_env_agent_port")  # the last that each of the two agents writes
LOOK_SECONDS = 0.2


@contextmanager
def awaited(found: Mapping[str, Host]) -> Iterator[None]:
    """Wait for the agents of every raylet that starts on these hosts, for as long as the context lasts."""
    over, stopped, ready = threading.Event(), set[int](), set[int]()

    def look(host: Host, raylet: int) -> None:
        node = NODE.search(command_line(raylet))
        if raylet not in stopped and len(descendants(raylet)) >= len(LAST_PORTS):
            os.kill(raylet, signal.SIGSTOP)
            stopped.add(raylet)
        elif raylet in stopped and node:
            written = " ".join(path.name for path in host.path(Path("/tmp/ray")).glob(f"session_2*/*{node[1]}*"))
            if all(port in written for port in LAST_PORTS):
                os.kill(raylet, signal.SIGCONT)
                ready.add(raylet)

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            for host in found.values():
                for process in set(host.processes()) - ready:
                    if process_name(process) == "raylet":
                        with suppress(ProcessLookupError):
                            look(host, process)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
