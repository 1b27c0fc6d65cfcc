"""The prefix tree: what starts from a beginning that others have painted is what it would have been from the start."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scanline.kernels import cpu as cpu_kernels
from scanline.model.network.transformer import Transformer
from scanline.model.sampling import prefix_tree
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Finished, GenerateRequest, ImageSpec, Pixels
from scanline.model.sampling.prefix_tree import PrefixTree, common_bytes
from tests.support import small_models
from tests.support.engine.engine_ticks import run_until_idle

pytestmark = pytest.mark.skipif(not cpu_kernels.available(), reason="the tree follows the cpu kernel's draws")

COLD = 0.0002  # a temperature at which images of different seeds begin alike, guided ones of mixtures too
BOTTOM = (np.arange(20) >= 12).tobytes()
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {  # a variant of small_models, and what is asked for
    "bytes": ("plain", {}),
    "of a class": ("strokes", {"label": 2}),
    "of drawn classes, guided": ("strokes", {"drawn_classes": 3, "guidance": 1.5}),
    "of particles": ("strokes", {"known": (bytes(range(20)),), "masks": (BOTTOM,), "particles": 3}),
    "pixels": ("waves of pixels", {}),
    "pixels, guided": ("waves of pixels", {"label": 2, "guidance": 1.5}),
}


@contextmanager
def engine_of(model: Transformer, precision: str = "exact") -> Iterator[tuple[Engine, PrefixTree]]:
    engine = Engine(Generator(model, 6, 1, precision))
    assert engine.admission.tree is not None
    yield engine, engine.admission.tree
    engine.generator.close()


def small_model(variant: str) -> Transformer:
    options = {
        **small_models.VARIANTS[variant],
        **(small_models.CLASSES if "waves" in small_models.VARIANTS[variant] else {}),
    }
    return small_models.model(small_models.config(**options))


def painted(engine: Engine, *requests: GenerateRequest) -> set[Finished]:
    return {event for event in run_until_idle(engine, *requests) if isinstance(event, Finished)}


@pytest.mark.parametrize("precision", ["exact", "int8"])
@pytest.mark.parametrize("asked", REQUESTS)
def test_an_image_that_starts_from_a_beginning_has_the_bytes_and_the_bits_of_one_that_does_not(
    asked: str, precision: str
) -> None:
    variant, options = REQUESTS[asked]
    model = small_model(variant)
    wanted = [GenerateRequest(i, 9, 50 + i, COLD * (1 + 4 * i), **options) for i in range(3)]
    with engine_of(model, precision) as (engine, tree):
        for seed in range(8):
            painted(engine, GenerateRequest(9, 6, seed, COLD, **options))
        assert tree.bytes == sum(node.segments[label].bytes for node, label in tree.used) > 0
        before = engine.stats()
        found = painted(engine, *wanted)
        assert engine.stats().shared_bytes - before.shared_bytes > 3 * tree.length
        total = 27 * model.config.bytes
        assert engine.stats().painted_bytes - before.painted_bytes == total, "each byte counts once, shared or not"
    with engine_of(model, precision) as (engine, _):
        engine.admission.tree = None
        assert found == painted(engine, *wanted)


@pytest.fixture
def strokes() -> Transformer:
    return small_model("strokes")


@pytest.fixture
def alike() -> Callable[[int], GenerateRequest]:
    return lambda seed: GenerateRequest(0, 6, seed, COLD)


def test_a_stream_gets_the_shared_bytes_at_once(strokes: Transformer, alike: Callable[[int], GenerateRequest]) -> None:
    with engine_of(strokes) as (engine, tree):
        for seed in range(8):
            painted(engine, alike(seed))
        events = run_until_idle(engine, GenerateRequest(1, 1, 99, COLD, stream=True))
        first = next(event for event in events if isinstance(event, Pixels))
        ((index, start, pixels),) = first.painted
        assert (index, start) == (0, 0)
        assert len(pixels) > tree.length


def test_images_of_the_same_random_numbers_let_nothing_grow(
    strokes: Transformer, alike: Callable[[int], GenerateRequest]
) -> None:
    """A seed that is sent again and again shows nothing about what others paint."""
    with engine_of(strokes) as (engine, tree):
        for request in range(8):
            painted(engine, GenerateRequest(request, 1, 7, COLD))
        assert not tree.used


def test_known_bytes_let_nothing_grow(strokes: Transformer) -> None:
    """Completions of a picture begin alike, and have a prefix for that."""
    known, top = (bytes(range(20)),), ((np.arange(20) < 12).tobytes(),)
    with engine_of(strokes) as (engine, tree):
        for seed in range(8):
            painted(engine, GenerateRequest(0, 6, seed, known=known, masks=top))
        assert not tree.used


def test_images_without_a_common_beginning_let_nothing_grow() -> None:
    options = {**small_models.VARIANTS["pixels"], "causal_conv": False}  # with these it paints white beginnings
    with engine_of(small_models.model(small_models.config(**options))) as (engine, tree):
        for seed in range(8):
            painted(engine, GenerateRequest(0, 6, seed, 5.0))
        assert not tree.used


@given(st.lists(st.binary(min_size=20, max_size=20).map(lambda data: bytes(byte % 2 for byte in data)), max_size=9))
def test_an_image_is_compared_once_with_each_recent_one_up_to_their_common_beginning(images: list[bytes]) -> None:
    """A comparison of each segment from the beginning would take the square of the picture."""
    model = small_model("strokes")
    with engine_of(model) as (_, tree), pytest.MonkeyPatch.context() as patch:
        compared = []
        patch.setattr(prefix_tree, "common_bytes", lambda *pair: compared.append(pair) or common_bytes(*pair))
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


def test_the_tree_is_bounded_and_forgets_what_was_not_used_for_long(
    strokes: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_of(strokes) as (engine, tree):
        for label, kept, labels in ((1, 48, {1}), (2, 100_000, {1}), (2, 48, {2})):
            monkeypatch.setattr(prefix_tree, "KEPT", kept)
            for seed in range(16):
                painted(engine, GenerateRequest(0, 6, seed, COLD, label=label))
            if label == 1:
                tree.most_bytes = tree.bytes
            assert 0 < tree.bytes <= tree.most_bytes
            assert {label for _, label in tree.used} == labels
