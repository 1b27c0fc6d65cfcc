"""Memory for an image in flight: taken when the generator is made, the same at every position."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from tests.support import small_models


def tensors(thing: Any, name: str = "generator") -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor that an object holds, weights aside."""
    if isinstance(thing, torch.Tensor):
        yield name, thing
    elif isinstance(thing, list | tuple):
        for i, item in enumerate(thing):
            yield from tensors(item, f"{name}[{i}]")
    elif hasattr(thing, "__dict__") and not isinstance(thing, torch.nn.Module):
        for key, value in vars(thing).items():
            yield from tensors(value, f"{name}.{key}")


def test_nothing_that_the_generator_holds_grows_from_the_first_byte_to_the_last() -> None:
    generator = Generator(small_models.model(small_models.config()), 3)
    for slot in range(3):
        generator.place(slot, ImageSpec(1, slot))
    sizes = []
    for _ in range(generator.config.bytes):
        generator.advance(1)
        sizes.append({name: tensor.untyped_storage().nbytes() for name, tensor in tensors(generator)})
    generator.close()
    assert len(sizes[0]) > 3
    assert all(size == sizes[0] for size in sizes)


@pytest.mark.parametrize("variant", ["plain", "colour", "authors"])
def test_state_takes_the_memory_that_the_configuration_states(variant: str) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    generator = Generator(small_models.model(config), 64)
    rows = len(generator.pool.state.position)
    generator.close()
    assert rows == 64
    assert generator.pool.state.s.nbytes + generator.pool.state.z.nbytes == rows * config.state_bytes_per_image
