"""Alone == in a full batch with arrivals and departures, byte for byte, on the CUDA backend through a generator: free
images, tempered ones, completions with and without a prefix. In the interpreter it is slow; test_batches.py and
test_painting.py hold the backend to the same there."""

import pytest

from tests.support.kernels.gpu import DEVICE, ON_GPU  # isort: skip

from scanline.model import backends
from tests.support import small_models
from tests.support.engine.batch_composition import Painter, in_a_batch, painted_alone, watched
from tests.support.sweeps import and_slow

SIZES = {"height": 1, "width": 3, "layers": 1}
CROWDS = [2, 70, 5000] if ON_GPU else [2]  # slots; the interpreter is slow
KINDS = slice(None) if ON_GPU else slice(0, 5, 2)  # of watched images: free, with a known prefix, with known bytes
VARIANTS = {"plain": {}, "grey pixels": {"window_rows": 1, "window_columns": 2}}
pytestmark = [] if ON_GPU else pytest.mark.slow


@pytest.fixture(scope="module", params=and_slow(["plain"], "grey pixels"))
def painter(request: pytest.FixtureRequest) -> Painter:
    changes = {**SIZES, **small_models.VARIANTS[request.param], **VARIANTS[request.param]}
    return Painter(small_models.model(small_models.config(**changes)).to(DEVICE), "cuda", "exact")


@pytest.fixture(autouse=True)
def without_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the interpreter, the self-test of each generator would take longer than the tests here."""
    if not ON_GPU:
        monkeypatch.setattr(backends, "run_self_test", lambda *arguments: None)


def test_alone_is_in_a_batch(painter: Painter) -> None:
    canvases = watched(painter)[KINDS]
    alone = painted_alone(painter, canvases)
    for slots in CROWDS:
        generator = painter.generator(slots)
        assert in_a_batch(generator, canvases) == alone
        generator.close()
