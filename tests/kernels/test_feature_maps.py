"""Feature maps: positive everywhere, found by name, and exact where they are small."""

import pytest
import torch

from scanline.kernels.feature_maps import FEATURE_MAPS, feature_map


@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_maps_are_positive(name):
    assert (feature_map(name)(torch.linspace(-10, 10, 60)) > 0).all()


def test_an_unknown_map_is_refused():
    with pytest.raises(ValueError, match=r"unknown feature map 'relu'; known: elu"):
        feature_map("relu")


def test_elu_plus_one_is_exponential_below_zero_and_linear_above():
    x = torch.tensor([-2.0, -0.5, 0.0, 3.0], dtype=torch.float64)
    expected = torch.where(x < 0, x.exp(), x + 1)
    torch.testing.assert_close(feature_map("elu")(x), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_small_features_keep_their_digits(dtype):
    x = torch.linspace(-80, 0, 1001).to(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        phi = feature_map("elu")(x)
    assert phi.dtype == dtype
    torch.testing.assert_close(
        phi.double(),
        x.double().exp(),
        rtol=torch.finfo(dtype).eps,
        atol=0,
    )
