"""What every test starts from: torch's own random stream at a known place, and one thread for its small
tensors, where a second one that has to be waited for costs more than it saves. Without a GPU, Triton's kernels
run in its interpreter, which has to be said before the first of them is imported."""

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
    """An engine's loop in this process, with five slots."""
    generator = Generator(grey, 5, threads=1)
    yield Engine(generator)
    generator.close()
