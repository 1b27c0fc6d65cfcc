"""Completions by particles are those of the model: held against models in which every hidden byte can be enumerated.

The weights of the last layer are scaled so that what follows the hole says much about it: with one particle, which
paints from what is before it alone, the same test of the distribution fails.
"""

import functools
from dataclasses import dataclass

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Finished, GenerateRequest
from tests.support import small_models
from tests.support.engine.engine_ticks import images_of, run_until_idle
from tests.support.sweeps import and_slow

IMAGES, SLOTS, BINS = 600, 4096, 16
LIMIT = 50.5  # the quantile of chi-square with 15 degrees of freedom that 1 in 100,000 exceeds
PIXELS = {**small_models.VARIANTS["pixels"], "height": 2, "width": 2, "window_columns": 2}
CASES = {  # model options, how much sharper, and the hidden bytes
    "one byte": ({"height": 2, "width": 3, "predicts": "categorical"}, 1.5, (1,)),
    "two bytes apart": ({"height": 2, "width": 3}, 1, (1, 3)),
    "the red of a pixel": (PIXELS, 0.5, (3,)),
}
SOME = and_slow(["two bytes apart", "the red of a pixel"], "one byte")


@dataclass(frozen=True)
class Exact:
    """A model, an image with hidden bytes, and what enumeration finds of it."""

    model: Transformer
    image: np.ndarray  # [N] uint8
    mask: np.ndarray  # [N] bool
    evidence: float  # the probability of the known bytes
    posterior: np.ndarray  # [256 ^ hidden] of the hidden bytes, the first one slowest


@functools.cache
def exact(case: str) -> Exact:
    """Enumerates the hidden bytes of one of the model's own images."""
    options, scale, hidden = CASES[case]
    config = small_models.config(**options, layers=1)
    model, mask = small_models.model(config, seed=1), np.ones(config.bytes, np.bool_)
    model.head.weight.mul_(scale)
    mask[list(hidden)] = False
    generator = Generator(model, 1, threads=1)
    given = np.frombuffer(images_of(run_until_idle(Engine(generator), GenerateRequest(0, 1, 5))), np.uint8)
    values = np.stack(np.meshgrid(*[np.arange(256, dtype=np.uint8)] * len(hidden), indexing="ij"), axis=-1)
    every = np.tile(given, (256 ** len(hidden), 1))
    every[:, list(hidden)] = values.reshape(-1, len(hidden))
    probabilities = np.exp2(-generator.score(every).sum(axis=1))
    return Exact(model, given, mask, float(probabilities.sum()), probabilities / probabilities.sum())


@functools.cache
def completions(case: str, particles: int) -> list[Finished]:
    """Completions, in the order of their indices."""
    found = exact(case)
    generator = Generator(found.model, SLOTS, threads=1)
    known, masks = (found.image.tobytes(),), (found.mask.tobytes(),)
    request = GenerateRequest(0, IMAGES, 11, known=known, masks=masks, particles=particles)
    events = run_until_idle(Engine(generator), request)
    return sorted((one for one in events if isinstance(one, Finished)), key=lambda one: one.index)


def chi_square(found: Exact, images: list[bytes]) -> float:
    """Of so many bins of hidden values, whose true probabilities are about the same, those that are alike together."""
    painted = np.stack([np.frombuffer(image, np.uint8) for image in images])[:, ~found.mask].astype(np.int64)
    values = painted @ (256 ** np.arange(painted.shape[1])[::-1])
    order = np.argsort(-found.posterior, kind="stable")
    before = np.cumsum(found.posterior[order]) - found.posterior[order]
    bins = np.empty(len(order), np.int64)
    bins[order] = np.minimum(BINS * before, BINS - 1).astype(np.int64)
    expected = np.bincount(bins, found.posterior, BINS) * len(images)
    observed = np.bincount(bins[values], minlength=BINS)
    used = expected > 0
    assert observed[~used].sum() == 0
    return float(((observed - expected)[used] ** 2 / expected[used]).sum())


@pytest.mark.parametrize("particles", and_slow([1, 64], 4))
@pytest.mark.parametrize("case", SOME)
def test_the_mean_of_the_evidence_is_the_probability_of_the_known_bytes(case: str, particles: int) -> None:
    found = exact(case)
    ratios = np.exp2(-np.array([one.evidence_bits for one in completions(case, particles)])) / found.evidence
    error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    assert error < 0.15, "the estimate says little"
    assert abs(ratios.mean() - 1) < 4 * error + 1e-4


@pytest.mark.parametrize("case", SOME)
def test_completions_of_many_particles_are_distributed_as_the_model_says_and_of_one_they_are_not(case: str) -> None:
    found = exact(case)
    assert chi_square(found, [one.image for one in completions(case, 64)]) < LIMIT
    assert chi_square(found, [one.image for one in completions(case, 1)]) > LIMIT
