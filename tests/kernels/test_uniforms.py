"""Philox 4x32-10 against the vectors that Random123 publishes
(kat_vectors), and the uniforms of a pixel.
"""

import pytest
import torch

from scanline.kernels.philox import philox4x32, uniforms
from scanline.kernels.philox_rounds import uniform_pair

VECTORS = {
    "zeros": (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    "ones": (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    "pi": (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
}


def words(text):
    return torch.tensor([int(word, 16) for word in text.split()])


def test_known_answers_alone_and_at_once():
    for name, vector in VECTORS.items():
        counter, key, answer = map(words, vector)
        assert torch.equal(philox4x32(counter, key), answer), name
    counters, keys, answers = (
        torch.stack([words(vector[i]) for vector in VECTORS.values()]) for i in range(3)
    )
    assert torch.equal(philox4x32(counters, keys), answers)


def draw(seed=1, index=2, position=3):
    return uniforms(torch.tensor(seed), torch.tensor(index), torch.tensor(position))


def test_key_is_the_seed_and_counter_is_position_and_index():
    seed = 0x123456789ABCDEF0
    index = 0x1122334455
    position = 783
    words = philox4x32(
        torch.tensor([position, index & 0xFFFFFFFF, index >> 32, 0]),
        torch.tensor([seed & 0xFFFFFFFF, seed >> 32]),
    )
    assert torch.equal(
        draw(seed, index, position).double(), ((words[:2] >> 9).double() + 0.5) / 2**23
    )


# positions whose word begins with 24 zeros or ones, found by search
@pytest.mark.parametrize(
    ("index", "position"), [(26, 50395), (173, 245447), (13, 95837), (158, 199429)]
)
def test_extreme_words_stay_inside_the_unit_interval(index, position):
    u = draw(0, index, position)
    assert ((u > 0) & (u < 1)).all()


def test_integers_of_python_draw_the_same_bits_as_tensors():
    random = torch.Generator().manual_seed(0)
    seeds, indices = (torch.randint(2**63 - 1, (3000,), generator=random) for _ in range(2))
    positions = torch.randint(2**32, (3000,), generator=random)
    words = torch.tensor([0, 1, 2**31 - 1, 2**31, 2**32 - 1])  # at both ends of 31 and 32 bits
    for numbers, ends in (
        (positions, words),
        (seeds, words),
        (indices, words),
        (seeds, words[:3] << 32),
    ):
        numbers[torch.randperm(3000, generator=random)[:600]] = ends.repeat(600)[:600]
    drawn = [
        uniform_pair(*pixel)
        for pixel in zip(seeds.tolist(), indices.tolist(), positions.tolist(), strict=True)
    ]
    assert torch.equal(
        uniforms(seeds, indices, positions).double(), torch.tensor(drawn, dtype=torch.float64)
    )
