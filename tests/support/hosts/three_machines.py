"""A cluster on three hosts, started as docs/cluster.md tells a person with three machines, and its service."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.hosts import slow_agents
from tests.support.hosts.hosts import MODELS, Host, hosts
from tests.support.server.metrics_reader import Metrics, wait_until_idle
from tests.support.server.running_server import command_line, process_name
from tests.support.waiting import PATIENCE, wait_for

ROOT = Path(__file__).parents[3]
HEAD, WORKERS = "head", ("worker1", "worker2")
REPLICAS, SLOTS = 3, 16  # of the service, and of each replica
SIZE = {"replicas": REPLICAS, "slots": SLOTS, "cpus": 1.5, "ingress_cpus": 0.5, "drain_seconds": 20}
REPLICA = "ray::ServeReplica:scanline"
LOGS, LOST = "session_2*/logs/worker-*.err", re.compile("a replica (?:did not paint|was silent)")
TOKEN = Path("/tmp/home/.ray")
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_OVERRIDE_RESOURCES": '{"CPU": 2}',  # of each host: room for one replica, and for an ingress
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
    """Three hosts that are up, and what runs on them."""

    def __init__(self, found: dict[str, Host], model: Path) -> None:
        self.hosts, self.model = found, model
        self.exports = "\n".join(re.findall(r"^export \w+=(?:'[^']*'|\w+)", _block(), re.MULTILINE))
        self.url = self._url(HEAD)

    def run(self, host: str, start: str) -> str:
        """Run a documented command on a host."""
        return self.shell(host, documented(start))

    def shell(self, host: str, command: str) -> str:
        """Run a command in a shell of a host that has the documented variables."""
        return self.hosts[host].run("bash", "-c", f"{self.exports}\n{command}", **ENVIRONMENT)

    def start(self) -> None:
        """Make a cluster of the hosts."""
        self.run(HEAD, "ray get-auth-token")
        for worker in WORKERS:
            self.hosts[worker].copy(self.hosts[HEAD].path(TOKEN), TOKEN)
        self.run(HEAD, "ray start --head")
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda worker: self.run(worker, "ray start --address"), WORKERS))

    def deploy(self, **args: Any) -> None:
        """Deploy deploy/serve.yaml with other arguments, of a small model that every host has at the same place."""
        command, _, file = documented("serve deploy").rpartition(" ")
        config = yaml.safe_load((ROOT / file).read_text())
        config["applications"][0]["args"] = {"model": str(MODELS / self.model.name), **SIZE, **args}
        for host in self.hosts.values():
            host.copy(self.model, MODELS / self.model.name)
        changed = Path("/tmp/serve.yaml")
        self.hosts[HEAD].path(changed).write_text(yaml.safe_dump(config))
        self.shell(HEAD, f"{command} {changed}")

    def rejoin(self, host: str) -> None:
        """Add a host that was lost to the cluster again."""
        if self.hosts[host].processes():
            self.shell(host, "ray stop --force")
        self.run(host, "ray start --address")

    def in_cluster(self, host: str) -> bool:
        """Whether Ray's process of the host runs: it ends where the cluster has given up the host."""
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
        """A client of the service."""
        return httpx.Client(base_url=self.url, timeout=PATIENCE)

    def replicas(self) -> dict[str, int]:
        """How many replicas of the model each host has."""
        return self._count(lambda process: command_line(process).startswith(f"{REPLICA}:{self.model.name}"))

    def ingresses(self) -> dict[str, int]:
        """How many ingresses each host has."""
        return self._count(lambda process: command_line(process).startswith(f"{REPLICA}:Ingress"))

    def engines(self) -> dict[str, int]:
        """How many engines each host has."""
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
        files = [file for host in self.hosts.values() for file in host.path(Path("/tmp/ray")).glob(LOGS)]
        return sum(len(LOST.findall(file.read_text(errors="replace"))) for file in files)

    def wait_for_strength(self) -> None:
        """Wait until all replicas are up, and nothing else: no other replica or engine, and no work."""

        def found() -> bool:
            counts = sum(self.replicas().values()), sum(self.engines().values())
            return counts == (REPLICAS, REPLICAS) and self.slots() == REPLICAS * SLOTS

        wait_for(found, "all replicas")
        with self.client() as client:
            wait_until_idle(client)

    def _url(self, host: str) -> str:
        return f"http://{self.hosts[host].address}:8000"

    def _count(self, condition: Callable[[int], bool]) -> dict[str, int]:
        return {name: sum(map(condition, host.processes())) for name, host in self.hosts.items()}


@contextmanager
def three_machines(model: Path) -> Iterator[Machines]:
    """A cluster with no service on it yet, for as long as the context lasts."""
    with hosts(HEAD, *WORKERS) as found, slow_agents.awaited(found):
        machines = Machines(found, model)
        machines.start()
        yield machines
