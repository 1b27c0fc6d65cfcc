"""The prefix tree: what starts from a beginning that others have painted is what
it would have been from the start.
"""

from itertools import takewhile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scanline.model.base.sampling_options import DrawnLabel
from scanline.model.sampling import prefix_tree
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import Finished, GenerateRequest, Pixels
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.prefix_tree import common_bytes
from tests.support import small_models
from tests.support.engine.engine_ticks import of_kind, run_until_idle
from tests.support.kernels.native import NATIVE

pytestmark = NATIVE

# a temperature at which images of different seeds begin alike, guided ones of mixtures too
COLD = 0.0002
BOTTOM = (np.arange(20) >= 12).tobytes()
# a variant of small_models, and what is asked for
REQUESTS = {
    "bytes": ("plain", {}),
    "of a class": ("strokes", {"label": 2}),
    "of drawn classes, guided": ("strokes", {"label": DrawnLabel(3), "guidance": 1.5}),
    "of particles": ("strokes", {"known": (bytes(range(20)),), "masks": (BOTTOM,), "particles": 3}),
    "pixels": ("waves of pixels", {}),
    "pixels, guided": ("waves of pixels", {"label": 2, "guidance": 1.5}),
}


def engine_of(model, precision="exact"):
    engine = Engine(Generator(model, 6, 1, precision))
    return engine, engine.admission.tree


def small_model(variant):
    options = small_models.VARIANTS[variant]
    return small_models.model(
        small_models.config(**options, **(small_models.CLASSES if "waves" in options else {}))
    )


def painted(engine, *requests):
    return {*of_kind(run_until_idle(engine, *requests), Finished)}


@pytest.mark.parametrize("precision", ["exact", "int8"])
@pytest.mark.parametrize("asked", REQUESTS)
def test_an_image_that_starts_from_a_beginning_has_the_bytes_and_bits_of_any_other(
    asked, precision
):
    variant, options = REQUESTS[asked]
    model = small_model(variant)
    wanted = [
        GenerateRequest(i, 9, 50 + i, temperature=COLD * (1 + 4 * i), **options) for i in range(3)
    ]
    engine, tree = engine_of(model, precision)
    for seed in range(8):
        painted(engine, GenerateRequest(9, 6, seed, temperature=COLD, **options))
    assert tree.bytes == sum(node.segments[label].bytes for node, label in tree.used) > 0
    before = engine.stats()
    found = painted(engine, *wanted)
    assert engine.stats().shared_bytes - before.shared_bytes > 3 * tree.length
    total = 27 * model.config.bytes
    assert engine.stats().painted_bytes - before.painted_bytes == total, (
        "each byte counts once, shared or not"
    )
    engine, _ = engine_of(model, precision)
    engine.admission.tree = None
    assert found == painted(engine, *wanted)


@pytest.fixture
def strokes():
    return small_model("strokes")


def test_a_stream_gets_the_shared_bytes_at_once(strokes):
    engine, tree = engine_of(strokes)
    for seed in range(8):
        painted(engine, GenerateRequest(0, 6, seed, temperature=COLD))
    events = run_until_idle(engine, GenerateRequest(1, 1, 99, temperature=COLD, stream=True))
    ((index, start, pixels),) = of_kind(events, Pixels)[0].painted
    assert (index, start) == (0, 0)
    assert len(pixels) > tree.length


TOP = {"known": (bytes(range(20)),), "masks": ((np.arange(20) < 12).tobytes(),)}
STROKES = {**small_models.VARIANTS["strokes"], **small_models.CLASSES}
# with these it paints white beginnings
UNLIKE = {**small_models.VARIANTS["pixels"], "causal_conv": False}
WITHOUT_GROWTH = {
    # a seed that is sent again and again shows nothing about what others paint
    "the same random numbers": (STROKES, lambda i: GenerateRequest(i, 1, 7, temperature=COLD)),
    # completions of a picture begin alike, and have a prefix for that
    "known bytes": (STROKES, lambda i: GenerateRequest(0, 6, i, **TOP)),
    "no common beginning": (UNLIKE, lambda i: GenerateRequest(0, 6, i, temperature=5.0)),
}


@pytest.mark.parametrize("why", WITHOUT_GROWTH)
def test_nothing_grows_without_a_beginning_that_images_of_their_own_have_in_common(
    why,
):
    options, request = WITHOUT_GROWTH[why]
    engine, tree = engine_of(small_models.model(small_models.config(**options)))
    for number in range(8):
        painted(engine, request(number))
    assert not tree.used


@given(
    st.lists(
        st.binary(min_size=20, max_size=20).map(lambda data: bytes(byte % 2 for byte in data)),
        max_size=9,
    )
)
def test_an_image_is_compared_once_with_each_recent_one_up_to_their_common_beginning(
    images,
):
    """A comparison of each segment from the beginning would take the square of the picture."""
    _, tree = engine_of(small_model("strokes"))
    with pytest.MonkeyPatch.context() as patch:
        compared = []
        patch.setattr(
            prefix_tree, "common_bytes", lambda *pair: compared.append(pair) or common_bytes(*pair)
        )
        for number, image in enumerate([*images, *images]):
            tree.growing.clear()
            compared.clear()
            tree.add(ImageSpec(number, 0), (0,), image)
            before = list(tree.recent)[:-1]
            assert len(compared) == len(before)
            same = [takewhile(bool, map(int.__eq__, image, other)) for _, _, other in before]
            alike = max((sum(each) for each in same), default=0)
            alike = min(alike, len(image) - 1) // tree.length * tree.length
            assert tree.growing == ({0: image[:alike]} if alike else {})


def test_the_tree_is_bounded_and_forgets_what_was_unused(strokes, monkeypatch):
    engine, tree = engine_of(strokes)
    for label, kept, labels in ((1, 48, {1}), (2, 100_000, {1}), (2, 48, {2})):
        monkeypatch.setattr(prefix_tree, "KEPT", kept)
        for seed in range(16):
            painted(engine, GenerateRequest(0, 6, seed, temperature=COLD, label=label))
        if label == 1:
            tree.most_bytes = tree.bytes
        assert 0 < tree.bytes <= tree.most_bytes
        assert {label for _, label in tree.used} == labels
