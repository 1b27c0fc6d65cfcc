"""Test vectors for the page's random numbers and samples, made by the code that the server paints with.

`python -m tests.support.page_vectors` writes server/web/test/vectors.json.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scanline.kernels.mixture.reference import sample
from scanline.kernels.philox import philox4x32, uniforms
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from tests.support import small_models

FILE = Path(__file__).parents[2] / "server/web/test/vectors.json"
WORDS = (0, 1, 2**16, 2**31, 2**32 - 1)
SEEDS = (0, 1, 2**32, 2**53 + 1, 2**63 - 1)
INDICES = (0, 7, 2**32 - 1, 2**32 + 5)
POSITIONS = (0, 783, 3071)
TEMPERATURES = (0.3, 1.0, 1.7)
DRAWS = 60  # of each scale and temperature


def vectors() -> dict[str, Any]:
    """All vectors as JSON values; seeds are strings, since JSON numbers are not exact beyond 2^53."""
    return {
        "philox": _philox(),
        "uniforms": [_uniforms(*of) for of in zip(SEEDS * 12, INDICES * 15, POSITIONS * 20, strict=True)],
        "mixture": [_mixture(scale, temperature) for scale in ("exp", "elu") for temperature in TEMPERATURES],
        "first": {"histogram": small_models.HISTOGRAM, "draws": [_first(seed) for seed in range(60)]},
    }


def _philox() -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    words = np.concatenate((random.choice(WORDS, (20, 6)), random.integers(0, 2**32, (20, 6))))
    found = philox4x32(torch.tensor(words[:, :4]), torch.tensor(words[:, 4:]))
    return [
        {"counter": row[:4], "key": row[4:], "words": out}
        for row, out in zip(words.tolist(), found.tolist(), strict=True)
    ]


def _uniforms(seed: int, index: int, position: int) -> dict[str, Any]:
    found = uniforms(*map(torch.tensor, (seed, index, position)))
    return {"seed": str(seed), "index": index, "position": position, "uniforms": found.tolist()}


def _mixture(scale: str, temperature: float) -> dict[str, Any]:
    """Samples of mixtures with four components, narrow and wide, with means inside and outside the byte range."""
    random = torch.Generator().manual_seed(int(10 * temperature))
    parameters = (64 * torch.randn(DRAWS, 12, generator=random)).round() / 64  # few digits
    parameters[:, 8:] = 3 * parameters[:, 8:] - 4
    draws = uniforms(torch.tensor(3), torch.arange(DRAWS), torch.tensor(0))
    painted = sample(parameters, draws, torch.full((DRAWS,), temperature), scale)
    return {
        "scale": scale,
        "temperature": temperature,
        "parameters": parameters.tolist(),
        "uniforms": draws.tolist(),
        "bytes": painted.tolist(),
    }


def _first(seed: int) -> dict[str, Any]:
    """Byte 0 of a model without a start token, which has a histogram for it."""
    temperature = TEMPERATURES[seed % 3]
    generator = Generator(small_models.model(small_models.config(**small_models.NO_START)), 1, backend="eager")
    generator.place(0, ImageSpec(seed, 2, temperature))
    byte = int(generator.image(0)[0])
    generator.close()
    draw = uniforms(torch.tensor(seed), torch.tensor(2), torch.tensor(0)).tolist()
    return {"uniforms": draw, "temperature": temperature, "byte": byte}


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors()) + "\n")
