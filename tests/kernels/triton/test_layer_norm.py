"""LayerNorm in Triton against torch's."""

import pytest
import torch
import torch.nn.functional as F

from tests.support.kernels.gpu import there  # isort: skip

from scanline.kernels.triton.layer_norm import layer_norm
from tests.support.close import assert_close


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (5, 20), (9, 33), (4, 256)])
def test_agrees_with_torch(rows, width):
    x, weight, bias = there(
        torch.randn(rows, width) * 3 + 10,
        torch.randn(width),
        torch.randn(width),
    )
    expected = F.layer_norm(x.double(), (width,), weight.double(), bias.double())
    layer_norm(x, weight, bias)
    assert_close("x", expected, x)
