"""On the CUDA backend, images are painted from codes of the intervals that are read, beside images that are drawn."""

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.codec.coder import Decoder, encode
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import SlotPool
from scanline.model.network.transformer import Transformer
from scanline.model.state import State
from tests.support import small_models
from tests.support.engine.slot_arrays import clear
from tests.support.sweeps import and_slow

SMALL = {"height": 1, "width": 2, "layers": 1}  # the interpreter takes its time
OPTIONS = CudaOptions(sizes=(4,), steps=1, prefill_images=2, prefill_rows=4)  # fewer images at once than there are
IMAGES, SLOTS = 3, 5
CODED, DRAWN = [4, 0, 3], 1  # the slots of the images, and of one that is drawn
LABELS = torch.tensor([2, 0, 1])  # where the model has classes


def model_of(variant: str) -> Transformer:
    options = {**small_models.VARIANTS[variant], **SMALL}
    if "window_columns" in options:
        options |= {"window_columns": 2, "window_rows": 1, **small_models.CLASSES}
    elif options.get("channels") == 3:
        options["width"] = 1
    return small_models.model(small_models.config(**options)).to(DEVICE)


def read(backend: CudaBackend, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Bits and intervals of images, the first step read before the others."""
    config = backend.config
    state = State.zeros(config, IMAGES, DEVICE, backend.state_dtype)
    intervals = torch.full((IMAGES, config.bytes, 2), -1, dtype=torch.int32, device=DEVICE)
    bits = torch.zeros(IMAGES, config.bytes, dtype=torch.float64, device=DEVICE)
    for stop in (config.first + config.step_bytes, config.bytes):
        batch = PrefillBatch.of(images, state, np.full(IMAGES, stop), *there(LABELS), intervals=intervals)
        bits[:, :stop] += backend.prefill(batch)
    assert (intervals[:, : config.first] == -1).all()
    return bits, intervals[:, config.first :]


def drawn_and_decoded(backend: CudaBackend, images: torch.Tensor, codes: list[bytes]) -> SlotPool:
    """A pool after all steps of an image that is drawn in slot DRAWN, and of those that have codes in others."""
    config, slots = backend.config, CODED[: len(codes)]
    pool = SlotPool.empty(config, SLOTS, DEVICE, backend.state_dtype)
    for slot in (DRAWN, *slots):
        clear(pool.state, slot, config.first)
    for slot, image, label in zip(slots, images, LABELS, strict=False):
        pool.images[slot, : config.first], pool.label[slot] = image[: config.first], label
    if codes:
        backend.put_codes(pool, np.array(slots), [Decoder(code) for code in codes])
    backend.advance(pool, np.sort([DRAWN, *slots]), config.steps).wait()
    return pool


@pytest.mark.parametrize(
    "variant", and_slow(["strokes", "grey pixels"], "waves of pixels", "plain", "histogram", "authors", "elu-scale")
)
def test_images_are_painted_from_their_codes_at_the_bits_of_reading_and_others_as_without_them(variant: str) -> None:
    model = model_of(variant)
    backend = CudaBackend(model, options=OPTIONS)
    (images,) = there(torch.from_numpy(small_models.images(model.config, IMAGES)))
    bits, intervals = read(backend, images)
    codes = [encode(map(tuple, own)) for own in intervals.tolist()]
    found, alone = drawn_and_decoded(backend, images, codes), drawn_and_decoded(backend, images, [])
    assert torch.equal(found.images[CODED], images)
    assert torch.equal(found.bits[CODED], bits.cumsum(dim=1)[:, -1])
    for name in ("images", "bits", "code_at", "code_range"):
        assert torch.equal(getattr(found, name)[DRAWN], getattr(alone, name)[DRAWN])
