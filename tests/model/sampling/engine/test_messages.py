"""Requests: which images, particles and labels one asks for, whole or in shards."""

import numpy as np
import pytest

from scanline.model.sampling.messages import GenerateRequest, ScoreRequest


def completion(*masks: str, images: int | None = None, particles: int = 16) -> GenerateRequest:
    """Of images of known bytes "1" and hidden ones "0"."""
    known = tuple(bytes([10 + i] * len(mask)) for i, mask in enumerate(masks))
    held = tuple(bytes(int(byte) for byte in mask) for mask in masks)
    return GenerateRequest(0, images or len(masks), 5, known=known, masks=held, label=2, particles=particles)


@pytest.mark.parametrize(
    ("mask", "prefix", "particles"),
    [("000000", 0, 1), ("111111", 6, 1), ("111000", 3, 1), ("111001", 3, 16), ("010101", 0, 16), ("101000", 1, 16)],
)
def test_the_prefix_ends_and_particles_begin_where_a_hidden_byte_stands(mask: str, prefix: int, particles: int) -> None:
    """The known bytes before the first hidden one; particles where a known byte follows it."""
    assert (completion(mask).image(0).prefix, completion(mask).particles_of(0)) == (prefix, particles)
    assert completion(mask, particles=1).particles_of(0) == 1


def test_images_without_known_bytes_have_one_particle() -> None:
    request = GenerateRequest(0, 3, 5, particles=64, label=1)
    assert [request.particles_of(index) for index in range(3)] == [1] * 3
    spec = request.image(2)
    assert (spec.seed, spec.index, spec.label, spec.particle, spec.particles) == (5, 2, 1, 0, 1)


def test_particles_are_of_one_image_and_differ_in_their_number_alone() -> None:
    request = completion("1001", "1100", images=4, particles=3)
    assert [request.particles_of(index) for index in range(4)] == [3, 3, 1, 1]
    assert (request.slots, request.shard((0, 3)).slots) == (8, 4)
    assert GenerateRequest(0, 3, 5, label=1, guidance=2.0).slots == 6
    specs = [request.image(1, particle) for particle in range(3)]
    assert [spec.particle for spec in specs] == [0, 1, 2]
    for spec in specs:
        assert (spec.seed, spec.index, spec.label, spec.particles, spec.prefix) == (5, 1, 2, 3, 1)
        np.testing.assert_array_equal(spec.known, [10] * 4)
    last = request.image(3)
    assert (last.particles, last.label, last.known.tolist()) == (1, 2, [11] * 4)
    assert request.shard((3,)).image(3).prefix == last.prefix == 2


def test_shards_keep_labels_and_particles() -> None:
    shard = completion("1001", "1100", images=4, particles=3).shard((1,))
    assert (shard.label, shard.particles, shard.particles_of(1)) == (2, 3, 3)
    drawn = GenerateRequest(0, 9, 5, drawn_classes=3)
    assert {drawn.image(index).label for index in range(9)} == {1, 2, 3}
    assert [drawn.shard((1, 6)).image(index).label for index in (1, 6)] == [drawn.label_of(1), drawn.label_of(6)]
    scores = ScoreRequest(0, (b"a", b"b", b"c"), labels=(3, 0, 1), tolerances=(0, 9, 8))
    assert [scores.shard((1, 2)).label_of(index) for index in (1, 2)] == [0, 1]
    assert [scores.shard((1, 2)).tolerance_of(index) for index in (1, 2)] == [9, 8]
    assert ScoreRequest(0, (b"a", b"b")).label_of(1) == ScoreRequest(0, (b"a", b"b")).tolerance_of(1) == 0
