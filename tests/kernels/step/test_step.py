"""The recurrent step against the literal loop, and against the attention that it unrolls."""

import pytest
import torch

from scanline.kernels.attention import reference as attention
from scanline.kernels.step import recurrent_step, reference
from tests.support.close import assert_close
from tests.support.kernels.heads import sequence, state


@pytest.mark.parametrize("widths", [(8, 5), (5, 8), (1, 1), (32, 32), (33, 17)])
@pytest.mark.parametrize("batch", [1, 3, 33])
def test_agrees_with_the_reference(batch: int, widths: tuple[int, int]) -> None:
    q, k, v = (x[:, :, 0].contiguous() for x in sequence(1, *widths, batch=batch))
    s, z = state(*widths, batch=batch)
    expected_s = s.double()
    expected_z = z.double()
    expected = reference.recurrent_step(q.double(), k.double(), v.double(), expected_s, expected_z)
    assert_close("y", expected, recurrent_step(q, k, v, s, z))
    assert_close("s", expected_s, s)
    assert_close("z", expected_z, z)


@pytest.mark.parametrize(
    "step", [recurrent_step, reference.recurrent_step], ids=["eager", "reference"]
)
def test_many_steps_are_the_attention(step) -> None:
    q, k, v = sequence(70)
    y, s, z = attention.causal_linear_attention(q.double(), k.double(), v.double())
    ours_s = torch.zeros(2, 3, 8, 5)
    ours_z = torch.zeros(2, 3, 8)
    outputs = [
        step(*(x[:, :, i].contiguous() for x in (q, k, v)), ours_s, ours_z) for i in range(70)
    ]
    assert_close("y", y, torch.stack(outputs, dim=2))
    assert_close("s", s, ours_s)
    assert_close("z", z, ours_z)
