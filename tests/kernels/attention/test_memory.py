"""Memory that training holds: O(N max(C, M)) for a head, and no [N, C, M] tensor at any moment."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from scanline.kernels.attention import causal_linear_attention
from tests.support.kernels.heads import sequence

WIDTH = 32


class Largest(TorchDispatchMode):
    """Remembers the most elements that any operation's result had."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, list | tuple) else [result]:
            if isinstance(x, torch.Tensor):
                self.elements = max(self.elements, x.numel())
        return result


def stored(length: int) -> dict[int, int]:
    """Bytes of every storage that the forward pass keeps for the backward pass, by address."""
    storages: dict[int, torch.UntypedStorage] = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        storages[x.untyped_storage().data_ptr()] = x.untyped_storage()
        return x

    inputs = [x.requires_grad_() for x in sequence(length, WIDTH, WIDTH, batch=1)]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        causal_linear_attention(*inputs)[0].sum()
    return {address: storage.nbytes() for address, storage in storages.items()}


def test_stored_bytes_grow_linearly_and_none_of_the_storages_has_n_c_m_elements() -> None:
    short, middle, long = (stored(length) for length in (256, 512, 1024))
    assert max(short.values()) < 4 * 256 * WIDTH * WIDTH
    assert sum(long.values()) - sum(middle.values()) == 2 * (sum(middle.values()) - sum(short.values()))


def test_nothing_of_n_c_m_elements_exists_even_for_a_moment() -> None:
    inputs = [x.requires_grad_() for x in sequence(256, WIDTH, WIDTH, batch=1)]
    with Largest() as largest:
        causal_linear_attention(*inputs)[0].sum().backward()
    assert 0 < largest.elements < 3 * 256 * WIDTH * WIDTH
