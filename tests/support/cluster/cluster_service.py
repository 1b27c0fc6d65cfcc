"""A service on a Ray cluster of this machine, its processes, and the images that it must return."""

from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx
from ray import serve

from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
from scanline.model.tasks.offline import paint
from scanline.server.cluster import app
from tests.support.server.running_server import PATIENCE, command_line, descendants, process_name
from tests.support.waiting import wait_for

NAME = "scanline"
KEY = "k-cluster"
ALLOWED = {"authorization": f"Bearer {KEY}"}


class Service:
    """A running service, seen from outside."""

    def __init__(self, url, model):
        self.url = url
        self.model = model

    def client(self):
        return httpx.Client(base_url=self.url, timeout=PATIENCE, headers=ALLOWED)

    def replicas(self):
        return _processes(f"ray::ServeReplica:{NAME}:{self.model}")

    def engines(self):
        return [engine for replica in self.replicas() for engine in self.engines_of(replica)]

    def engines_of(self, replica):
        """Those of one replica: none between an engine's death and the next one's start."""
        return [child for child in descendants(replica) if process_name(child) == "scanline-engine"]

    def handle(self):
        return serve.get_deployment_handle(self.model, app_name=NAME)

    def statuses(self):
        return self.handle().broadcast("status", "a test", 0).results(timeout_s=PATIENCE)

    def painted(self):
        return [one.stats.painted_bytes for one in self.statuses()]

    def wait_until_idle(self):
        def is_idle():
            return not any(
                one.stats.requests_running + one.stats.requests_waiting for one in self.statuses()
            )

        wait_for(is_idle, "engines without work")

    def wait_for_replicas(self, count):
        """Wait until so many are up, and no other replica or engine process is left."""

        def found():
            states = serve.status().applications[NAME].deployments[self.model].replica_states
            expected = {"RUNNING": count} if count else {}
            return dict(states) == expected and len(self.engines()) == count == len(self.replicas())

        wait_for(found, f"{count} replicas")


@contextmanager
def running(port, **args):
    """A service with these arguments behind Serve's proxy at `port`,
    for as long as the context lasts.
    """
    serve.run(app(args), name=NAME, route_prefix="/")
    try:
        service = Service(f"http://127.0.0.1:{port}", Path(args["model"]).name)
        with service.client() as client:
            wait_for(lambda: client.get("/readyz").status_code == 200, "a service that is ready")
        yield service
    finally:
        serve.delete(NAME)


@cache
def offline(n, seed):
    """[n, 28, 28] uint8: what the shipped model paints for a seed
    without a server, a class or guidance.
    """
    return paint(load_model(zoo.find("mnist-small")), n, seed=seed, temperature=1.0).images.reshape(
        n, 28, 28
    )


def _processes(name):
    found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [process for process in found if command_line(process).startswith(name)]
