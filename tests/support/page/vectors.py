"""Test vectors for the page's random numbers, samples and codes, made by
the code that the server paints with.

`python -m tests.support.page.vectors` writes server/web/test/vectors.json.
"""

import json
import math
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scanline.kernels import LN2
from scanline.kernels.categorical import Categorical
from scanline.kernels.codec.coder import encode
from scanline.kernels.codec.reference import histogram_starts, intervals
from scanline.kernels.codec.tables import exp2_table, log2_table, sigmoid_table
from scanline.kernels.philox import philox4x32, uniforms
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.model.base.class_names import drawn_label
from scanline.model.network.distribution import distribution
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kinds.image_spec import ImageSpec
from tests.support import small_models

FILE = Path(__file__).parents[3] / "server/web/test/vectors.json"
WORDS = (0, 1, 2**16, 2**31, 2**32 - 1)
SEEDS = (0, 1, 2**32, 2**53 + 1, 2**63 - 1)
INDICES = (0, 7, 2**32 - 1, 2**32 + 5)
POSITIONS = (0, 783, 3071)
TEMPERATURES = (0.3, 1.0, 1.7)
DRAWS = 60  # of each distribution and temperature
# changes of a configuration, rows of parameters
DISTRIBUTIONS: dict[str, tuple[dict[str, Any], int]] = {
    "logistics": ({"components": 4}, 30),
    "logistics of colour, elu scale": ({"components": 4, "channels": 3, "scale": "elu"}, 30),
    "categorical": ({"predicts": "categorical"}, 5),
    "grey pixels": (small_models.VARIANTS["grey pixels"], 20),
    "colour pixels": ({**small_models.VARIANTS["pixels"], "components": 5}, 30),
}
CODED: tuple[Categorical | PixelLogistics, ...] = (
    Categorical(),
    PixelLogistics(7, 1, "elu"),
    PixelLogistics(3, 2, "exp"),
    PixelLogistics(5, 4, "elu"),
)
STRANGE = (0.0, 1e30, -1e30, math.inf, -math.inf, math.nan)


def vectors():
    """All vectors as JSON values; seeds are strings, since JSON
    numbers are not exact beyond 2^53.
    """
    return {
        "philox": _philox(),
        "uniforms": [
            _uniforms(*of) for of in zip(SEEDS * 12, INDICES * 15, POSITIONS * 20, strict=True)
        ],
        "samples": [
            _samples(name, temperature) for name in DISTRIBUTIONS for temperature in TEMPERATURES
        ],
        "labels": [
            _label(*of) for of in zip((-10, -1, -1000, 3) * 5, SEEDS * 4, INDICES * 5, strict=True)
        ],
        "tables": [
            sha256(str(table()).encode()).hexdigest()
            for table in (exp2_table, log2_table, sigmoid_table)
        ],
        "codes": [_code(*of) for of in enumerate(CODED)],
        "first": {
            "histogram": small_models.HISTOGRAM,
            "starts": histogram_starts(small_models.HISTOGRAM),
            "draws": [_first(seed) for seed in range(60)],
        },
    }


def _philox():
    random = np.random.default_rng(0)
    words = np.concatenate((random.choice(WORDS, (20, 6)), random.integers(0, 2**32, (20, 6))))
    found = philox4x32(torch.tensor(words[:, :4]), torch.tensor(words[:, 4:]))
    return [
        {"counter": row[:4], "key": row[4:], "words": out}
        for row, out in zip(words.tolist(), found.tolist(), strict=True)
    ]


def _label(label, seed, index):
    of_image = label if label >= 0 else drawn_label(-label, seed, index)
    return {"label": label, "seed": str(seed), "index": index, "of_image": of_image}


def _uniforms(seed, index, position):
    found = uniforms(*map(torch.tensor, (seed, index, position)))
    return {"seed": str(seed), "index": index, "position": position, "uniforms": found.tolist()}


def _samples(name, temperature):
    """Samples of a distribution and their bits at temperature 1: the parameters
    of a row, then some draws of it.
    """
    changes, rows = DISTRIBUTIONS[name]
    config = small_models.config(**changes)
    family = distribution(config)
    size = config.step_bytes
    each = DRAWS // rows
    random = torch.Generator().manual_seed(int(10 * temperature))
    parameters = _parameters(family, rows, random)
    repeated = parameters.repeat_interleave(each, dim=0)
    # [DRAWS, n, 2]
    draws = uniforms(torch.tensor(3), torch.arange(DRAWS).unsqueeze(1), torch.arange(size))
    known = torch.rand(DRAWS, size, generator=random) < (0.3 if size > 1 else 0.1)
    values = torch.randint(0, 256, (DRAWS, size), generator=random, dtype=torch.uint8)
    painted = family.sample(repeated, draws, torch.full((DRAWS,), temperature), values, known)
    bits = -family.log_prob(repeated, painted).double().sum(dim=-1) / LN2
    return {
        "name": name,
        "config": {
            key: getattr(config, key)
            for key in ("step", "predicts", "components", "channels", "scale")
        },
        "temperature": temperature,
        "parameters": parameters.tolist(),
        "draws": draws.tolist(),
        "known": [
            [value if is_known else None for value, is_known in zip(*row, strict=True)]
            for row in zip(values.tolist(), known.tolist(), strict=True)
        ],
        "bytes": painted.tolist(),
        "bits": [float(f"{bit:.6g}") for bit in bits.tolist()],
    }


def _parameters(family, rows, random):
    """Parameters [rows, P] of few digits: for logistics, narrow and wide, with
    means inside and outside the range.
    """
    parameters = (64 * torch.randn(rows, family.width, generator=random)).round() / 64
    if isinstance(family, PixelLogistics):
        first = family.components * (1 + family.channels)
        scales = parameters[:, first : first + family.components * family.channels]
        scales.copy_(3 * scales - 4)
    else:
        parameters *= 4
    return parameters


def _code(number, family):
    """Bytes of steps with ordinary and strange parameters, their
    intervals, and the code of all of them.
    """
    random = torch.Generator().manual_seed(number)
    ordinary = torch.tensor([0.3, 1, 2, 4, 16, 1000]).unsqueeze(1) * torch.randn(
        6, family.width, generator=random
    )
    strange = torch.tensor(STRANGE).unsqueeze(1).expand(-1, family.width)
    mixed = torch.where(torch.rand(6, family.width, generator=random) < 0.2, strange, ordinary)
    parameters = torch.cat((ordinary, strange, mixed))
    channels = family.channels if isinstance(family, PixelLogistics) else 1
    values = torch.randint(0, 256, (len(parameters), channels), generator=random)
    values[::3] = 255 * (values[::3] > 127)
    found = intervals(family, parameters, values).flatten(0, -2).tolist()
    config: dict[str, Any] = {"predicts": "categorical"}
    if isinstance(family, PixelLogistics):
        config = {
            "predicts": "pixel_logistics",
            "components": family.components,
            "scale": family.scale,
        }
    return {
        "config": {"step": "pixel", "channels": channels, **config},
        "parameters": [
            b64encode(row.numpy().astype("<f4").tobytes()).decode() for row in parameters
        ],
        "bytes": values.tolist(),
        "intervals": found,
        "code": encode(map(tuple, found)).hex(),
    }


def _first(seed):
    """Byte 0 of a model without a start token, which has a histogram for it."""
    temperature = TEMPERATURES[seed % 3]
    generator = Generator(
        small_models.model(small_models.config(**small_models.NO_START)), 1, backend="eager"
    )
    generator.place(0, ImageSpec(seed, 2, temperature=temperature))
    byte = int(generator.image(0)[0])
    generator.close()
    draw = uniforms(torch.tensor(seed), torch.tensor(2), torch.tensor(0)).tolist()
    return {"uniforms": draw, "temperature": temperature, "byte": byte}


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors()) + "\n")
