"""Feature maps: positive everywhere, found by name."""

import pytest
import torch

from scanline.kernels.feature_maps import FEATURE_MAPS, feature_map


@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_positive_and_of_the_same_shape(name: str) -> None:
    x = torch.linspace(-10, 10, 60).view(3, 4, 5)
    phi = feature_map(name)(x)
    assert phi.shape == x.shape
    assert (phi > 0).all()


def test_elu_plus_one_is_exponential_below_zero_and_linear_above() -> None:
    x = torch.tensor([-2.0, -0.5, 0.0, 3.0], dtype=torch.float64)
    expected = torch.tensor([-2.0, -0.5, 0.0, 0.0], dtype=torch.float64).exp() + torch.tensor([0.0, 0.0, 0.0, 3.0])
    torch.testing.assert_close(feature_map("elu")(x), expected)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown feature map 'relu'; known: elu"):
        feature_map("relu")
