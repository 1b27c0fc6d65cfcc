"""Settings for all tests, and the two tiny models that most of them paint with.

Tests are seeded. torch gets one thread, since a second one costs more than it saves on small tensors. Without a GPU,
Triton kernels run in its interpreter, which must be chosen before the first of them is imported.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from tests.support import small_models
from tests.support.tiny import COLOUR, GREY

torch.set_num_threads(1)
if find_spec("hypothesis"):  # a bare GPU machine has only what kernels and model need
    from hypothesis import settings

    settings.register_profile("seeded", derandomize=True, deadline=None, database=None)
    settings.load_profile("seeded")


# fixtures that are slow to start and that several modules share: with xdist, all tests that use the same one run on the
# same worker, so that it starts once
SHARED = (
    "full_queue_server",
    "limited_server",
    "guarded_server",
    "small_room_server",
    "in_process_server",
    "faulty_engine",
    "browser",
    "proxy",
)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Accept and ignore the xdist options of pyproject.toml where xdist is missing or disabled."""
    if not pluginmanager.hasplugin("xdist"):
        for option in ("--numprocesses", "--dist"):
            parser.addoption(option, help="ignored without xdist")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests by the shared fixture that they use, and all others by their module."""
    for item in items:
        shared = [name for name in SHARED if name in getattr(item, "fixturenames", ())]
        item.add_marker(pytest.mark.xdist_group(shared[0] if shared else item.nodeid.partition("::")[0]))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def grey_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "grey"
    save_model(small_models.model(GREY), directory)
    return directory


@pytest.fixture(scope="session")
def colour_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "colour"
    save_model(small_models.model(COLOUR), directory)
    return directory


@pytest.fixture(scope="session")
def grey(grey_directory: Path) -> Transformer:
    """7 rows of 5 grey pixels; the weights are those of the file, in float16."""
    return load_model(grey_directory)


@pytest.fixture(scope="session")
def colour(colour_directory: Path) -> Transformer:
    """3 rows of 4 RGB pixels."""
    return load_model(colour_directory)


@pytest.fixture
def engine(grey: Transformer) -> Iterator[Engine]:
    """An engine loop in this process, with five slots."""
    generator = Generator(grey, 5, threads=1)
    yield Engine(generator)
    generator.close()
