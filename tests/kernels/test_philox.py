"""Philox 4x32-10 against the known-answer vectors that Random123 publishes (kat_vectors)."""

import torch

from scanline.kernels.philox import philox4x32

VECTORS = {
    "zeros": ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    "ones": ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    "pi": ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
}


def words(text: str) -> torch.Tensor:
    return torch.tensor([int(word, 16) for word in text.split()])


def test_known_answers_alone_and_at_once() -> None:
    for name, vector in VECTORS.items():
        counter, key, answer = map(words, vector)
        assert torch.equal(philox4x32(counter, key), answer), name
    counters, keys, answers = (torch.stack([words(vector[i]) for vector in VECTORS.values()]) for i in range(3))
    assert torch.equal(philox4x32(counters, keys), answers)
