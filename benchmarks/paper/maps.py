"""Feature maps to compare with elu + 1: what turns keys and queries into features whose products are not negative.

Each is a function with the interface of kernels/feature_maps.py but for two things: it may widen [..., C] to [..., F],
and its features may be zero (relu) or negative (the polynomial, whose products are squares). They are not in
FEATURE_MAPS, since a map of a model is also one of every backend and of ONNX.
"""

import math
from functools import cache

import torch
import torch.nn.functional as F

from scanline.kernels.feature_maps import FeatureMap, elu_plus_one

RANDOM_FEATURES = 2  # of FAVOR+, for each dimension of a key
SEED = 0  # of its projections: the same for every layer and head, and never drawn again


def relu(x: torch.Tensor) -> torch.Tensor:
    """phi(x) = max(x, 0), [..., C]; a query of no positive entries gives an output of 0."""
    return F.relu(x)


def squared_relu(x: torch.Tensor) -> torch.Tensor:
    """phi(x) = max(x, 0)^2, [..., C]."""
    return F.relu(x).square()


def polynomial(x: torch.Tensor) -> torch.Tensor:
    """The degree-2 polynomial of section 3.2.1: phi(q)^T phi(k) = (1 + q^T k / sqrt(C))^2; [..., F].

    F = (C + 1)(C + 2) / 2, not C^2: the products of two entries, each pair once, with sqrt(2) for that of two different
    ones, of x scaled by C^(-1/4) and with an entry of 1 appended.
    """
    scaled = x * x.shape[-1] ** -0.25
    entries = torch.cat((scaled, torch.ones_like(scaled[..., :1])), dim=-1)
    first, second, weight = _pairs(entries.shape[-1], x.device)
    return entries[..., first] * entries[..., second] * weight.to(x.dtype)


def random_features(x: torch.Tensor) -> torch.Tensor:
    """Performer's FAVOR+, positive orthogonal random features (Choromanski et al., 2021, lemma 1 and section 3.2);
    [..., F] with F = 2 C.

    phi(x) = (exp(W x - |x|^2 / 2) + 1e-4) / sqrt(F), of x scaled by C^(-1/4): phi(q)^T phi(k) estimates
    exp(q^T k / sqrt(C)). The exponent is at most |w|^2 / 2 for a row w of W, about C / 2, so no maximum has to be
    subtracted, which over a sequence would not be causal.
    """
    width = x.shape[-1]
    scaled = x * width**-0.25
    w = projection(RANDOM_FEATURES * width, width, x.device).to(x.dtype)
    exponent = scaled @ w.T - scaled.square().sum(dim=-1, keepdim=True) / 2
    return (exponent.exp() + 1e-4) / math.sqrt(len(w))


MAPS: dict[str, FeatureMap] = {
    "elu + 1": elu_plus_one,
    "relu": relu,
    "squared relu": squared_relu,
    "polynomial": polynomial,
    "FAVOR+": random_features,
}


def features(name: str, key_width: int) -> int:
    """Return F, the features that a map makes of a key of C dimensions."""
    return MAPS[name](torch.zeros(1, key_width)).shape[-1]


@cache
def projection(rows: int, width: int, device: torch.device) -> torch.Tensor:
    """Return W [rows, width] in float32: rows are orthogonal in blocks of `width`, and their norms are those of normal
    vectors."""
    generator = torch.Generator().manual_seed(SEED)
    blocks = [_orthogonal(torch.randn(width, width, generator=generator)) for _ in range(-(-rows // width))]
    norms = torch.randn(rows, width, generator=generator).norm(dim=1, keepdim=True)
    return (torch.cat(blocks)[:rows] * norms).to(device)


def _orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """Return a rotation or reflection drawn uniformly, from a matrix of normal numbers: without the signs, those of the
    rows of Q would be biased."""
    q, r = torch.linalg.qr(matrix)
    return q * r.diagonal().sign()


@cache
def _pairs(width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the indices i <= j of all pairs of entries, and the weight of each."""
    first, second = torch.triu_indices(width, width, device=device)
    return first, second, 1 + (math.sqrt(2) - 1) * (first != second).double()
