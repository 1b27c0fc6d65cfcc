"""The recurrent step against the literal loop, and against the attention that it unrolls."""

import pytest
import torch

from scanline.kernels.attention import reference as attention
from scanline.kernels.step import recurrent_step, reference
from tests.support.close import assert_close
from tests.support.kernels.heads import WIDTHS, sequence, state


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("batch", [1, 33])
def test_agrees_with_the_reference(batch, widths):
    q, k, v = sequence(1, *widths, batch=batch)
    step = [x[:, :, 0].contiguous() for x in (q, k, v)]
    s, z = state(*widths, batch=batch)
    expected_s = s.double()
    expected_z = z.double()
    wide = [x.double() for x in step]
    expected = reference.recurrent_step(*wide, expected_s, expected_z)
    assert_close("y", expected, recurrent_step(*step, s, z))
    assert_close("s", expected_s, s)
    assert_close("z", expected_z, z)


def test_many_steps_are_the_attention():
    q, k, v = (x.double() for x in sequence(70))
    y, s, z = attention.causal_linear_attention(q, k, v)
    stepped_s = torch.zeros_like(s)
    stepped_z = torch.zeros_like(z)
    for i in range(70):
        output = reference.recurrent_step(q[:, :, i], k[:, :, i], v[:, :, i], stepped_s, stepped_z)
        assert_close("y", y[:, :, i], output)
    assert_close("s", s, stepped_s)
    assert_close("z", z, stepped_z)
