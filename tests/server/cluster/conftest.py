"""One Ray cluster on this machine for all tests of this folder,
and the service that most of them use.

Without the extra `cluster` these tests are not collected.
"""

import os
import shutil
from importlib.util import find_spec

import pytest

from scanline.model import zoo
from scanline.model.formats.model_dir import GENERATION

if find_spec("ray") is None:
    collect_ignore_glob = ["*.py"]
else:
    from tests.support.cluster.cluster_service import KEY, running
    from tests.support.server.infrastructure.nginx_proxy import free_port

PATIENT = {
    "RAY_worker_niceness": "0",  # Ray's default is 15: other tests' processes would go first
    # on a slow machine Serve's own proxy is not up in five seconds
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "120",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "proxy" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def proxy():
    """Start a cluster; return the port of Serve's proxy."""
    import ray
    from ray import serve

    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", **PATIENT})
    port = free_port()
    # of which tests take fractions
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"port": port})
    yield port
    serve.shutdown()
    ray.shutdown()


@pytest.fixture(scope="session")
def plain_model(tmp_path_factory):
    """mnist-small without its defaults: a request that names nothing
    gets images of no class, not guided.
    """
    folder = tmp_path_factory.mktemp("plain") / "mnist-small"
    shutil.copytree(zoo.find("mnist-small"), folder, ignore=shutil.ignore_patterns(GENERATION))
    return str(folder)


@pytest.fixture(scope="module")
def service(proxy, plain_model):
    """Two replicas of mnist-small, behind an API key."""
    with running(
        proxy, model=plain_model, replicas=2, slots=128, api_keys=KEY, cpus=1, ingress_cpus=0.5
    ) as service:
        service.wait_for_replicas(2)
        yield service
