"""A cluster on three hosts, started as docs/cluster.md tells a person with
three machines, and its service.
"""

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.hosts.hosts import MODELS, Host, hosts
from tests.support.server.metrics_reader import Metrics, wait_until_idle
from tests.support.server.running_server import command_line, descendants, process_name
from tests.support.waiting import PATIENCE, wait_for

ROOT = Path(__file__).parents[3]
HEAD = "head"
WORKERS = ("worker1", "worker2")
# the first has room for a replica and an ingress, as the head has, the other for a replica
INGRESS, PAINTER = WORKERS
CPUS = {HEAD: 4, INGRESS: 4, PAINTER: 3}
# of the service, and of each replica
REPLICAS = len(CPUS)
SLOTS = 16
SIZE: dict[str, Any] = {
    "replicas": REPLICAS,
    "slots": SLOTS,
    "cpus": 3,
    "threads": 1,
    "ingress_replicas": 2,
    "ingress_cpus": 1,
    "drain_seconds": 20,
}
REPLICA = "ray::ServeReplica:scanline"
LOGS = "session_2*/logs/worker-*.err"
LOST = re.compile("a replica (?:did not paint|was silent)")
RAYLET_NODE = re.compile(r"--node_id=(\w+)")
# the last that each of two agents writes
LAST_PORTS = ("dashboard_agent_listen_port", "runtime_env_agent_port")
TOKEN = Path("/tmp/home/.ray")
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # Ray's default is 15: what else this machine does would go first
    # on a slow machine Ray's own processes are not up as soon as it expects
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "300",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "300",
}


def documented(start: str) -> str:
    """The command of docs/cluster.md that starts so, for the head of these tests."""
    (line,) = (line for line in _block().splitlines() if line.startswith(start))
    return line.partition("#")[0].strip().replace("HEAD", HEAD)


def _block() -> str:
    block = re.search(r"```sh\n(.*?)```", (ROOT / "docs/cluster.md").read_text(), re.DOTALL)
    assert block
    return block[1]


class Machines:
    def __init__(self, found: dict[str, Host], model: Path) -> None:
        self.hosts = found
        self.model = model
        self.exports = "\n".join(re.findall(r"^export \w+=(?:'[^']*'|\w+)", _block(), re.MULTILINE))
        self.url = self._url(HEAD)

    def run(self, host: str, start: str, **environment: str) -> str:
        return self.shell(host, documented(start), **environment)

    def shell(self, host: str, command: str, **environment: str) -> str:
        """Run a command in a shell of a host that has the documented variables."""
        variables = {
            **ENVIRONMENT,
            "RAY_OVERRIDE_RESOURCES": json.dumps({"CPU": CPUS[host]}),
            **environment,
        }
        return self.hosts[host].run("bash", "-c", f"{self.exports}\n{command}", **variables)

    def copy_token(self) -> None:
        """Make a token, and give it to all hosts."""
        self.run(HEAD, "ray get-auth-token")
        for worker in WORKERS:
            self.hosts[worker].copy(self.hosts[HEAD].path(TOKEN), TOKEN)

    def start(self, **environment: str) -> None:
        """Make a cluster of the hosts, with no service; `environment`: of the head."""
        self.rejoin(HEAD, "ray start --head", **environment)
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.rejoin, WORKERS))

    def deploy(self, **args: Any) -> None:
        """Deploy deploy/serve.yaml with other arguments, of a small model that every host has at
        the same place. An argument of SIZE that is None here is left out."""
        command, _, file = documented("serve deploy").rpartition(" ")
        config = yaml.safe_load((ROOT / file).read_text())
        given = {"model": str(MODELS / self.model.name), **SIZE, **args}
        config["applications"][0]["args"] = {
            name: value for name, value in given.items() if value is not None
        }
        for host in self.hosts.values():
            host.copy(self.model, MODELS / self.model.name)
        changed = Path("/tmp/serve.yaml")
        self.hosts[HEAD].path(changed).write_text(yaml.safe_dump(config))
        self.shell(HEAD, f"{command} {changed}")

    def rejoin(self, host: str, start: str = "ray start --address", **environment: str) -> None:
        """Add a host to the cluster, again where it was in it."""
        if self.hosts[host].processes():
            self.shell(host, "ray stop --force")
        self.run(host, start, **environment)

    def in_cluster(self, host: str) -> bool:
        """Whether Ray's process of the host runs: it ends where
        the cluster has given up the host.
        """
        return any(process_name(process) == "raylet" for process in self.hosts[host].processes())

    @contextmanager
    def clients_at(self, host: str) -> Iterator[None]:
        """Let clients connect to another host than the first, for as long as the context lasts."""
        self.url = self._url(host)
        try:
            yield
        finally:
            self.url = self._url(HEAD)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE)

    def replicas(self) -> dict[str, int]:
        return {name: len(self.replicas_of(host)) for name, host in self.hosts.items()}

    def replicas_of(self, host: Host) -> list[int]:
        name = f"{REPLICA}:{self.model.name}"
        return [process for process in host.processes() if command_line(process).startswith(name)]

    def ingresses(self) -> dict[str, int]:
        return self._count(lambda process: command_line(process).startswith(f"{REPLICA}:Ingress"))

    def engines(self) -> dict[str, int]:
        return self._count(lambda process: process_name(process) == "scanline-engine")

    def slots(self) -> float:
        """Slots of all replicas that the ingress knows; 0 while there is no ingress."""
        try:
            with self.client() as client:
                return Metrics(client).of("batch_slots")
        except (httpx.HTTPError, AssertionError):
            return 0

    def lost_shards(self) -> int:
        """How many times an ingress has given a shard to another replica, by their logs."""
        return sum(len(LOST.findall(log)) for host in self.hosts for log in self.logs(host))

    def logs(self, host: str) -> list[str]:
        return [
            file.read_text(errors="replace")
            for file in self.hosts[host].path(Path("/tmp/ray")).glob(LOGS)
        ]

    def connections(self, host: str, *which: str) -> int:
        """How many connections a host has that are not closed, or not closed by it."""
        found = self.hosts[host].run(
            "ss", "-Htn", "state", "established", "state", "close-wait", *which
        )
        return len(found.splitlines())

    def wait_for_strength(self) -> None:
        """Wait until all replicas and ingresses are up, and nothing else: no
        engine, work or client's connection.
        """
        each = dict.fromkeys(CPUS, 1)

        def found() -> bool:
            return self.replicas() == self.engines() == each and self.ingresses() == {
                **each,
                PAINTER: 0,
            }

        wait_for(found, "all replicas and ingresses")
        for name in (HEAD, INGRESS):
            with self.clients_at(name):
                wait_for(
                    lambda: self.slots() == REPLICAS * SLOTS, "an ingress that knows all replicas"
                )
                with self.client() as client:
                    wait_until_idle(client)
        wait_for(
            lambda: not any(self.connections(name, "sport = :8000") for name in CPUS),
            "no connection",
        )

    def _url(self, host: str) -> str:
        return f"http://{self.hosts[host].address}:8000"

    def _count(self, condition: Callable[[int], bool]) -> dict[str, int]:
        return {name: sum(map(condition, host.processes())) for name, host in self.hosts.items()}


@contextmanager
def agents_awaited(found: dict[str, Host]) -> Iterator[None]:
    """Give Ray's agents time to start, for as long as the context lasts. A raylet ends itself
    where its agents have not written their ports to files after 15 seconds, and no setting
    changes that. On a busy machine they take longer: their raylet is stopped meanwhile, and
    reads the files when it goes on."""
    over = threading.Event()
    stopped = set[int]()
    ready = set[int]()

    def look(host: Host, raylet: int) -> None:
        node = RAYLET_NODE.search(command_line(raylet))
        if raylet not in stopped and len(descendants(raylet)) >= len(LAST_PORTS):
            os.kill(raylet, signal.SIGSTOP)
            stopped.add(raylet)
        elif raylet in stopped and node:
            written = " ".join(
                path.name for path in host.path(Path("/tmp/ray")).glob(f"session_2*/*{node[1]}*")
            )
            if all(port in written for port in LAST_PORTS):
                os.kill(raylet, signal.SIGCONT)
                ready.add(raylet)

    def watch() -> None:
        while not over.wait(0.2):
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


@contextmanager
def three_machines(model: Path) -> Iterator[Machines]:
    """A cluster with no service on it yet, for as long as the context lasts."""
    with hosts(HEAD, *WORKERS) as found, agents_awaited(found):
        machines = Machines(found, model)
        machines.copy_token()
        machines.start()
        yield machines
