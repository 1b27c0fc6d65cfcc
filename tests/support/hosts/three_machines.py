"""A cluster on three hosts, started as docs/cluster.md tells a person with
three machines, and its service.
"""

import json
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import yaml

from tests.support.hosts.hosts import MODELS, ROOT, hosts
from tests.support.server.metrics_reader import Metrics, wait_until_idle
from tests.support.server.running_server import command_line, process_name
from tests.support.waiting import PATIENCE, wait_for

HEAD = "head"
WORKERS = ("worker1", "worker2")
# the first has room for a replica and an ingress, as the head has, the other for a replica
INGRESS, PAINTER = WORKERS
CPUS = {HEAD: 4, INGRESS: 4, PAINTER: 3}
# of the service, and of each replica
SLOTS = 16
SIZE = {
    "replicas": len(CPUS),
    "slots": SLOTS,
    "cpus": 3,
    "threads": 1,
    "ingress_replicas": 2,
    "ingress_cpus": 1,
    "drain_seconds": 20,
}
REPLICA = "ray::ServeReplica:scanline"
RAY_FILES = Path("/tmp/ray")
LOGS = "session_2*/logs/worker-*.err"
LOST = re.compile("a replica (?:did not paint|was silent)")
TOKEN = Path("/tmp/home/.ray")
BLOCK = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/cluster.md").read_text(), re.DOTALL)[0]
EXPORTS = "\n".join(re.findall(r"^export \w+=(?:'[^']*'|\w+)", BLOCK, re.MULTILINE))
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


def documented(start):
    """The command of docs/cluster.md that starts so, for the head of these tests."""
    (line,) = (line for line in BLOCK.splitlines() if line.startswith(start))
    return line.partition("#")[0].strip().replace("HEAD", HEAD)


class Machines:
    def __init__(self, found, model):
        self.hosts = found
        self.model = model
        self.client_host = HEAD  # that clients connect to

    @property
    def url(self):
        return f"http://{self.hosts[self.client_host].address}:8000"

    def shell(self, host, command, **environment):
        """Run a command in a shell of a host that has the documented variables."""
        cpus = json.dumps({"CPU": CPUS[host]})
        variables = {**ENVIRONMENT, "RAY_OVERRIDE_RESOURCES": cpus, **environment}
        return self.hosts[host].run("bash", "-c", f"{EXPORTS}\n{command}", **variables)

    def copy_token(self):
        """Make a token, and give it to all hosts."""
        self.shell(HEAD, documented("ray get-auth-token"))
        for worker in WORKERS:
            self.hosts[worker].copy(self.hosts[HEAD].path(TOKEN), TOKEN)

    def start(self, **environment):
        """Make a cluster of the hosts, with no service; `environment`: of the head."""
        self.rejoin(HEAD, "ray start --head", **environment)
        for worker in WORKERS:
            self.rejoin(worker)

    def deploy(self):
        """Deploy deploy/serve.yaml with other arguments, of a small model that every host has at
        the same place."""
        model = MODELS / self.model.name
        for host in self.hosts.values():
            host.copy(self.model, model)
        command, _, file = documented("serve deploy").rpartition(" ")
        config = yaml.safe_load((ROOT / file).read_text())
        config["applications"][0]["args"] = {"model": str(model), **SIZE}
        changed = Path("/tmp/serve.yaml")
        self.hosts[HEAD].path(changed).write_text(yaml.safe_dump(config))
        self.shell(HEAD, f"{command} {changed}")

    def rejoin(self, host, start="ray start --address", **environment):
        """Add a host to the cluster, again where it was in it."""
        if self.hosts[host].processes():
            self.shell(host, "ray stop --force")
        self.shell(host, documented(start), **environment)

    def in_cluster(self, host):
        """Whether Ray's process of the host runs: it ends where
        the cluster has given up the host.
        """
        return "raylet" in map(process_name, self.hosts[host].processes())

    @contextmanager
    def clients_at(self, host):
        """Let clients connect to another host than the first, for as long as the context lasts."""
        self.client_host = host
        try:
            yield
        finally:
            self.client_host = HEAD

    def client(self):
        return httpx.Client(base_url=self.url, timeout=PATIENCE)

    def replicas_of(self, host, name=""):
        """The processes of a deployment, by default the model's."""
        title = f"{REPLICA}:{name or self.model.name}"
        processes = self.hosts[host].processes()
        return [process for process in processes if command_line(process).startswith(title)]

    def lost_shards(self):
        """How many times an ingress has given a shard to another replica, by their logs."""
        logs = [file for host in self.hosts.values() for file in host.path(RAY_FILES).glob(LOGS)]
        return sum(len(LOST.findall(file.read_text(errors="replace"))) for file in logs)

    def wait_for_strength(self):
        """Wait until all replicas and ingresses are up, and nothing else: no
        engine, work or client's connection.
        """
        wait_for(lambda: all(map(self._is_complete, self.hosts)), "all replicas and ingresses")
        for name in (HEAD, INGRESS):
            with self.clients_at(name):
                wait_for(self._knows_all, "an ingress that knows all replicas")
                with self.client() as client:
                    wait_until_idle(client)
        wait_for(lambda: not any(map(self._connections, self.hosts)), "no connection")

    def _is_complete(self, host):
        names = [process_name(process) for process in self.hosts[host].processes()]
        found = [len(self.replicas_of(host)), names.count("scanline-engine")]
        return found == [1, 1] and len(self.replicas_of(host, "Ingress")) == (host != PAINTER)

    def _knows_all(self):
        """Whether an ingress answers that has the slots of all replicas."""
        try:
            with self.client() as client:
                return Metrics(client).of("batch_slots") == len(CPUS) * SLOTS
        except (httpx.HTTPError, AssertionError):
            return False

    def _connections(self, host):
        """The connections of a host's clients that are not closed, or not closed by it."""
        states = ("state", "established", "state", "close-wait")
        return self.hosts[host].run("ss", "-Htn", *states, "sport = :8000")


@contextmanager
def three_machines(model):
    """A cluster with no service on it yet, for as long as the context lasts."""
    with hosts(HEAD, *WORKERS) as found:
        machines = Machines(found, model)
        machines.copy_token()
        machines.start()
        yield machines
