"""The input of a step of a byte, against the literal sum: the previous byte or a start token, and the place."""

import math

import pytest
import torch

from scanline.model.network.embedding import START, Embedding
from tests.support import small_models
from tests.support.close import assert_close


def literal(embedding: Embedding, image: torch.Tensor, position: int) -> torch.Tensor:
    """The vector [D] for one byte to predict, looked up one by one."""
    config = embedding.config
    value = embedding.value[int(image[position - 1]) if position else START]
    if config.position == "sincos":
        width, time = len(value), position - config.first
        angles = [time / 10000 ** (2 * i / width) for i in range(width // 2)]
        place = torch.tensor([wave(angle) for angle in angles for wave in (math.sin, math.cos)])
    else:
        row, column = divmod(position // config.channels, config.width)
        place = embedding.row[row] + embedding.column[column]
        if config.channels == 3:
            place = place + embedding.channel[position % 3]
    return value + place if config.embedding_join == "sum" else torch.cat((value, place))


@pytest.mark.parametrize("variant", [name for name, changes in small_models.VARIANTS.items() if "step" not in changes])
def test_agrees_with_the_literal_sum(variant: str) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    embedding = small_models.model(config).embedding
    images = torch.from_numpy(small_models.images(config, 2))
    positions = torch.arange(config.first, config.bytes)
    assert isinstance(embedding, Embedding)
    expected = torch.stack(
        [torch.stack([literal(embedding, image, p) for p in positions.tolist()]) for image in images]
    )
    assert_close("embedding", expected, embedding(images, positions.unsqueeze(0)))
