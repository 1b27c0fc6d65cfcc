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


@pytest.mark.parametrize("variant", ["plain", "colour", "authors", "pixels"])
def test_what_the_generator_holds_is_as_large_as_the_configuration_states_and_never_grows(variant: str) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    generator = Generator(small_models.model(config), 64)
    state = generator.pool.state
    assert len(state.position) == 64
    assert state.nbytes == 64 * config.state_bytes_per_image
    for slot in range(3):
        generator.place(slot, ImageSpec(1, slot))
    sizes = []
    for _ in range(config.steps):
        generator.advance(1)
        sizes.append({name: tensor.untyped_storage().nbytes() for name, tensor in tensors(generator)})
    generator.close()
    assert len(sizes[0]) > 3
    assert all(size == sizes[0] for size in sizes)
