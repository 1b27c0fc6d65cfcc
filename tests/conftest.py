"""Settings for all tests, and the two tiny models that most of them paint with.

Tests are seeded. torch gets one thread, since a second one costs more than it saves on small tensors. Without a GPU,
Triton kernels run in its interpreter, which must be chosen before the first of them is imported.
"""

import functools
import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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
    from hypothesis import HealthCheck, settings

    # few examples of each property by default, many with `--hypothesis-profile many`; no example is judged by its time
    seeded_examples = settings(
        derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.register_profile("few", seeded_examples, max_examples=15)
    settings.register_profile("many", seeded_examples, max_examples=500)
    settings.load_profile("few")


# what is slow to start and used by several files: fixtures, and folders whose conftest.py starts something
SHARED_FIXTURES = re.compile(
    r"\b(full_queue_server|limited_server|guarded_server|small_room_server|in_process_server|faulty_engine)\b"
    r"|\bshapes(?=_server\b|_client\b)"
)
SHARED_FOLDERS = ("tests/server/web", "tests/server/cluster")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Accept and ignore the xdist options of pyproject.toml where xdist is missing or disabled."""
    if not pluginmanager.hasplugin("xdist"):
        for option in ("--numprocesses", "--dist"):
            parser.addoption(option, help="ignored without xdist")


@functools.cache
def group(path: Path) -> str:
    """What the tests of a file share with other files, or the file itself; a group runs on one worker."""
    folder = path.parent.as_posix()
    if folder.endswith(SHARED_FOLDERS):
        return folder
    found = SHARED_FIXTURES.search(path.read_text())
    return found[0] if found else str(path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Distribute groups instead of files, so that a shared server starts on one worker only.

    `--dist=loadgroup` does not do this: xdist 3.8 ignores its marks under pytest 9.2.
    """
    from xdist.scheduler.loadfile import LoadFileScheduling

    class GroupScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(config.rootpath / super()._split_scope(nodeid))

    return GroupScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


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
