"""Real servers of the two tiny models: what most tests of this floor start from."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.offline import paint
from tests.support.running_server import PATIENCE, Server, serve
from tests.support.unharmed import ALL


@pytest.fixture(scope="session")
def alone(grey: Transformer) -> np.ndarray:
    """What `assert_unharmed` asks for, painted without a server."""
    return paint(grey, ALL["n"], seed=ALL["seed"]).images.reshape(-1, 7, 5)


@pytest.fixture(scope="session")
def server(grey_directory: Path) -> Iterator[Server]:
    with serve(grey_directory, "--slots", "64", "--max-images-per-request", "2000") as server:
        yield server


@pytest.fixture(scope="session")
def colour_server(colour_directory: Path) -> Iterator[Server]:
    with serve(colour_directory, "--slots", "8", "--max-body-bytes", "100000") as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        yield client


@pytest.fixture
def colour_client(colour_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=colour_server.url, timeout=PATIENCE) as client:
        yield client
