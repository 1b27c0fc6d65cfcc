"""Prefixes: prefilled the same as forced, a fixed number of them, read as
seldom as that allows, in fair turns.
"""

import weakref
from collections import Counter

import numpy as np
import pytest
import torch

from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import Cancel, Finished, GenerateRequest
from scanline.model.sampling.base.prefill_state import PrefillState
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.prefill.prefixes import MAX_IMAGES
from scanline.model.tasks.offline import paint
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.engine.engine_ticks import ended, images_of, run_until_idle
from tests.support.kernels.native import BACKENDS

IMAGES = small_models.images(small_models.GREY, 150)
TOP = np.arange(35) < 15


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("prefix", [1, 9, 20])
@pytest.mark.parametrize("variant", ["plain", "histogram", "authors", "strokes", "pixels"])
def test_prefill_is_forced_stepping_up_to_rounding(variant, prefix, backend):
    """Bit for bit with the native kernel, which reads as it steps."""
    config = small_models.config_of(variant)
    prefix = -(-prefix // config.step_bytes) * config.step_bytes
    canvas = ImageSpec(
        1, 2, known=small_models.images(config, 1)[0], mask=np.arange(config.bytes) < prefix
    )
    generator = Generator(small_models.model(config), 2, backend=backend)
    generator.place(0, canvas, generator.prefill(canvas))
    generator.clear([0])
    generator.place(1, canvas)
    generator.advance((prefix - config.first) // config.step_bytes)
    generator.place(0, canvas, generator.prefill(canvas))
    assert generator.positions().tolist() == [prefix, prefix]
    assert_close("bits", *(torch.tensor(generator.bits_per_dim(slot)) for slot in (1, 0)))
    for name in ("s", "z") if prefix > config.first else ():
        read, forced = getattr(generator.pool.state, name)[:, :2].unbind(1)
        assert_close(name, forced, read)
        assert backend != "cpu" or torch.equal(forced, read)


class CountingEngine(Engine):
    def __init__(self, model, slots):
        super().__init__(Generator(model, slots, threads=1))
        self.images_read = 0
        start = self.generator.start_prefill

        def counted(images, *given):
            self.images_read += len(images)
            return start(images, *given)

        self.generator.start_prefill = counted


@pytest.fixture
def of_two_slots(grey):
    return CountingEngine(grey, 2)


def edit(request, images, client=""):
    known = (IMAGES[request % 150].tobytes(),)
    return GenerateRequest(
        request, images, request, known=known, masks=(TOP.tobytes(),), client=client
    )


def finished(events):
    return Counter(ended(events, Finished))


@pytest.fixture
def made(monkeypatch):
    """Every prefix that is made; those that nothing holds any more are dead."""
    made = []
    prefix = PrefillState.prefix

    def recorded(prefill, row):
        new = prefix(prefill, row)
        made.append(weakref.ref(new))
        return new

    monkeypatch.setattr(PrefillState, "prefix", recorded)
    return made


def alive(made):
    return sum(one() is not None for one in made)


def test_nothing_grows_with_the_number_of_edits_that_wait(of_two_slots, grey, made):
    """Sixty edits of two images each, and two slots."""
    engine = of_two_slots
    for request in range(60):
        engine.accept(edit(request, 2, client=f"client {request % 7}"))
    events = []
    while not engine.idle:
        events += engine.tick()
        assert len(engine.admission.prefixes.held) <= engine.admission.prefixes.room == 1
        assert alive(made) <= 1
    assert finished(events) == Counter(dict.fromkeys(range(60), 2))
    assert 60 <= engine.images_read == len(made) <= 120
    for request in (0, 31, 59):
        alone = paint(grey, 2, seed=request, known=IMAGES[request], mask=TOP)
        assert images_of(events, request) == alone.images.tobytes()


@pytest.mark.parametrize(
    ("slots", "room", "requests", "images"), [(40, 10, 10, 12), (2, 1, 12, MAX_IMAGES)]
)
def test_each_picture_is_read_once_while_there_is_room_and_for_several_images_of_one_client_that_wait_for_it(
    grey, slots, room, requests, images
):
    engine = CountingEngine(grey, slots)
    assert engine.admission.prefixes.room == room
    run_until_idle(engine, *(edit(request, images) for request in range(requests)))
    assert engine.images_read == requests


def test_an_edit_of_one_client_waits_for_no_long_ones_of_another(
    of_two_slots,
):
    """The others' prefix gives its room after the image that starts next, not after a thousand."""
    engine = of_two_slots
    for request in range(20):
        engine.accept(edit(request, 1000, client="many"))
    events = []
    while finished(events).total() < 10:
        events += engine.tick()
    engine.accept(edit(20, 3, client="one"))
    events.clear()
    while finished(events)[20] < 3:
        events += engine.tick()
    assert finished(events).total() <= 3 * 4 + 4
    for request in range(20):
        engine.accept(Cancel(request))
    assert engine.idle


def test_an_edit_does_not_hold_back_images_that_need_no_prefix(
    of_two_slots,
):
    """Slots are never kept for an image whose prefix is not there yet."""
    engine = of_two_slots
    engine.accept(edit(0, 5))
    engine.accept(GenerateRequest(1, 5, seed=0))
    engine.tick()
    assert {one.request for one in engine.scheduler.assigned.values()} == {1}
    assert len(engine.scheduler.assigned) == 2


@pytest.mark.parametrize("ticks", range(4))
def test_cancelled_edits_leave_none(of_two_slots, made, ticks):
    engine = of_two_slots
    for request in range(4):
        engine.accept(edit(request, 30))
    for _ in range(ticks):
        engine.tick()
    for request in range(4):
        engine.accept(Cancel(request))
    assert engine.idle
    assert not engine.admission.prefixes.held
    assert not engine.admission.prefixes.wanted
    assert not alive(made)
    assert engine.prefills.state is None


def test_edits_of_many_pictures_in_one_request_are_read_one_after_the_other(
    of_two_slots,
):
    known = tuple(image.tobytes() for image in IMAGES[:4])
    masks = tuple((np.arange(35) < known_bytes).tobytes() for known_bytes in (15, 0, 35, 15))
    assert finished(
        run_until_idle(of_two_slots, GenerateRequest(0, 8, 3, known=known, masks=masks))
    ) == {0: 8}
    assert of_two_slots.images_read == 3, "one of them has no prefix of known bytes"
