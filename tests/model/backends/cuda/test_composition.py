"""Alone == in a full batch with arrivals and departures, bit for bit, on the CUDA backend, in any graph and tiles."""

from dataclasses import dataclass

import pytest

from tests.support.kernels.gpu import DEVICE, ON_GPU  # isort: skip

from scanline.kernels.triton import linear
from scanline.model import backends
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.network.transformer import Transformer
from tests.support import small_models
from tests.support.engine.batch_composition import PARTICLES, Painter, in_a_batch, painted_alone, watched
from tests.support.sweeps import and_slow

SIZES = {"height": 3, "width": 2, "layers": 1}  # the fourth step writes states; the interpreter takes its time
SOME = ["of a class", "known prefix, of a class", "guided", "particles", "code"]  # in the interpreter
NEVER = 10**9  # programs from which on tiles are wide


@dataclass(frozen=True)
class Run:
    slots: int
    options: CudaOptions
    wide_from: int  # programs of a product


def options(*sizes: int, steps: int = 1) -> CudaOptions:
    return CudaOptions(sizes, steps, few=2, prefill_graphs=((1, 4), (2, 4)))


ALONE = Run(0, options(1, 2, PARTICLES + 1), NEVER)
CROWDS = [Run(11, options(2, 4, steps=2), 1), Run(7, options(4, steps=2), NEVER)]
CROWDS += [Run(PARTICLES, options(2, 8), 1), *(Run(slots, CudaOptions(), 1) for slots in (70, 5000) if ON_GPU)]
SWEEP = ("strokes", "plain", "post", "categorical", "grey pixels", "waves of pixels")
CASES = and_slow([("strokes", CROWDS if ON_GPU else CROWDS[:1])], *((variant, CROWDS) for variant in SWEEP))


def use(run: Run, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backends, "_new_backend", lambda name, model, *_: CudaBackend(model, options=run.options))
    patch.setattr(linear, "ENOUGH", run.wide_from)


@pytest.mark.parametrize(("variant", "crowds"), CASES)
def test_alone_is_in_a_batch(variant: str, crowds: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    if not ON_GPU:  # where the self-test of each generator would take longer than the test
        monkeypatch.setattr(backends, "run_self_test", lambda *arguments: None)
        monkeypatch.setattr(CudaBackend, "warm_up", lambda *arguments: None)
    changes = {**small_models.VARIANTS[variant], **SIZES, **small_models.CLASSES}
    changes |= {"window_columns": 2} if "window_columns" in changes else {}
    model: Transformer = small_models.model(small_models.config(**changes)).to(DEVICE)
    if variant == "strokes":
        model.head.weight.mul_(16)  # so that particles are resampled
    painter = Painter(model, "cuda", "exact")
    use(ALONE, monkeypatch)
    images = watched(painter)
    images = images if ON_GPU else {name: images[name] for name in SOME}
    alone = painted_alone(painter, images)
    assert variant != "strokes" or alone["particles"][3] < PARTICLES / 2
    assert alone["code"][0] == small_models.images(model.config, 1).tobytes()
    for run in crowds:
        use(run, monkeypatch)
        for name, image in in_a_batch(painter.generator(run.slots), images).items():
            assert image == alone[name], (name, run)
