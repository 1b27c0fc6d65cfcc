"""Three hosts with a cluster and a service on them, for all tests of this folder."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from scanline.model.formats.checkpoint import save_model
from tests.support import small_models
from tests.support.hosts.hosts import unavailable_reason

if find_spec("ray") is None:
    collect_ignore_glob = ["*.py"]
else:
    from tests.support.hosts.three_machines import Machines, three_machines


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses the hosts."""
    for item in items:
        if "namespaces" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skip where there can be no hosts."""
    if reason := unavailable_reason():
        pytest.skip(f"no hosts in namespaces: {reason}")


@pytest.fixture(scope="session")
def cluster(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Machines]":
    """Three machines with a replica each, and an ingress on one of them."""
    directory = tmp_path_factory.mktemp("models") / "small"
    save_model(small_models.model(small_models.config(height=14, width=14, layers=1), seed=3), directory)
    with three_machines(directory) as machines:
        machines.deploy()
        yield machines


@pytest.fixture
def machines(cluster: "Machines") -> "Machines":
    """The cluster at its full strength."""
    cluster.wait_for_strength()
    return cluster
