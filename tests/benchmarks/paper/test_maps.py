"""Feature maps: products of features are those of the kernels that they stand for, and never negative."""

import pytest
import torch

from benchmarks.paper.attentions import linear_of
from benchmarks.paper.maps import MAPS, features, polynomial, projection, random_features


@pytest.mark.parametrize("name", MAPS)
def test_products_are_not_negative_and_causal_outputs_are_averages_of_values(name: str) -> None:
    q, k, v = torch.randn(3, 2, 3, 70, 8).unbind()
    phi = MAPS[name]
    assert phi(q).shape == (2, 3, 70, features(name, 8))
    assert (phi(q) @ phi(k).mT >= -1e-5).all()
    y = linear_of(phi)(q, k, v)
    assert y.shape == v.shape
    assert (y.amax(dim=2) <= v.amax(dim=2) + 1e-4).all()


@pytest.mark.parametrize("width", [1, 8])
def test_polynomial_is_exact(width: int) -> None:
    q, k = torch.randn(2, 50, width, dtype=torch.float64)
    expected = (1 + (q @ k.mT) / width**0.5).square()
    torch.testing.assert_close(polynomial(q) @ polynomial(k).mT, expected)
    assert polynomial(q).shape[-1] == (width + 1) * (width + 2) // 2


def test_random_features_estimate_the_exponential_kernel() -> None:
    width = 8
    q, k = 0.5 * torch.randn(2, 200, width)
    exact = ((q @ k.mT) / width**0.5).exp()
    few = (random_features(q) @ random_features(k).mT - exact).abs().mean()
    assert few < 0.4 * exact.mean()  # 16 features
    w = projection(4000, width, q.device)
    many = [(x * width**-0.25) @ w.T - (x * width**-0.25).square().sum(-1, keepdim=True) / 2 for x in (q, k)]
    assert (many[0].exp() @ many[1].exp().mT / len(w) - exact).abs().mean() < 0.05 * exact.mean()


def test_rows_of_a_projection_are_orthogonal_in_blocks_and_always_the_same() -> None:
    w = projection(16, 8, torch.device("cpu"))
    for block in w.split(8):
        products = block @ block.T
        torch.testing.assert_close(products, products.diagonal().diag(), atol=1e-4, rtol=0)
    assert 4 < w.square().sum(dim=1).mean() < 12
    projection.cache_clear()
    assert torch.equal(w, projection(16, 8, torch.device("cpu")))


def test_random_features_are_finite_for_large_inputs() -> None:
    x = torch.randn(100, 32) * torch.logspace(-3, 3, 100).unsqueeze(1)
    assert random_features(x).isfinite().all()
    assert (random_features(x) > 0).all()
