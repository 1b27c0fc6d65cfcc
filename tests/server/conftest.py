"""Two tiny models with random weights, and real servers of them: what most tests of this floor start from."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from hypothesis import settings

from model.checkpoint import load_model, save_model
from model.generator import Generator
from model.painting import paint
from model.transformer import Transformer
from server.engine.loop import Engine
from tests.model import small
from tests.server.running import PATIENCE, Server, serve
from tests.server.tiny import COLOUR, GREY
from tests.server.unharmed import ALL

settings.register_profile("seeded", derandomize=True, deadline=None, database=None)
settings.load_profile("seeded")


@pytest.fixture(scope="session")
def grey_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "grey"
    save_model(small.model(GREY), directory)
    return directory


@pytest.fixture(scope="session")
def colour_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "colour"
    save_model(small.model(COLOUR), directory)
    return directory


@pytest.fixture(scope="session")
def grey(grey_directory: Path) -> Transformer:
    """7 rows of 5 grey pixels; the weights are those of the file, in float16."""
    return load_model(grey_directory)


@pytest.fixture(scope="session")
def colour(colour_directory: Path) -> Transformer:
    """3 rows of 4 RGB pixels."""
    return load_model(colour_directory)


@pytest.fixture(scope="session")
def alone(grey: Transformer) -> np.ndarray:
    """What `assert_unharmed` asks for, painted without a server."""
    return paint(grey, ALL["n"], seed=ALL["seed"]).images.reshape(-1, 7, 5)


@pytest.fixture
def engine(grey: Transformer) -> Iterator[Engine]:
    """An engine's loop in this process, with five slots."""
    generator = Generator(grey, 5, threads=1)
    yield Engine(generator)
    generator.close()


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
