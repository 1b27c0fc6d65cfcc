"""The recurrent step's Triton kernel against the literal loop: chosen rows step, all others stay."""

import pytest
import torch

from tests.support.gpu import DEVICE, there  # isort: skip

from scanline.kernels.feature_maps import elu_plus_one
from scanline.kernels.step import reference
from scanline.kernels.step.fused_triton import recurrent_step
from tests.support.close import assert_close

HEADS, POOL = 3, 7


def inputs(batch: int, key_width: int, value_width: int) -> tuple[torch.Tensor, ...]:
    """A projection before the feature map, s, z and the rows it belongs to, one of them nobody's."""
    projected = torch.randn(batch, HEADS * (2 * key_width + value_width))
    s, z = torch.randn(POOL, HEADS, key_width, value_width), torch.rand(POOL, HEADS, key_width) * 3
    rows = torch.randperm(POOL)[:batch]
    if batch > 1:
        rows[1] = -1
    return there(projected, s, z, rows)


def law(projected: torch.Tensor, s: torch.Tensor, z: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """y, s and z of the live rows, in float64."""
    _, heads, key_width, value_width = s.shape
    live = rows >= 0
    both, v = projected[live].double().split((2 * heads * key_width, heads * value_width), dim=1)
    q, k = elu_plus_one(both).view(-1, 2, heads, key_width).unbind(1)
    s, z = s[rows[live]].double(), z[rows[live]].double()
    y = reference.recurrent_step(q, k, v.view(-1, heads, value_width), s, z)
    return y.flatten(1), s, z


@pytest.mark.parametrize("widths", [(8, 5), (5, 8), (1, 1), (32, 32), (33, 17)])
@pytest.mark.parametrize("batch", [1, 5])
def test_agrees_with_the_reference(batch: int, widths: tuple[int, int]) -> None:
    projected, s, z, rows = inputs(batch, *widths)
    expected = law(projected, s, z, rows)
    live = rows >= 0
    y = recurrent_step(projected, s, z, rows)
    results = (y[live], s[rows[live]], z[rows[live]])
    for name, reference_, result in zip(("y", "s", "z"), expected, results, strict=True):
        assert_close(name, reference_, result)


def test_rows_that_were_not_chosen_stay_as_they_are() -> None:
    projected, s, z, rows = inputs(5, 8, 5)
    before_s, before_z, y = s.clone(), z.clone(), torch.full((5, HEADS * 5), 7.0, device=DEVICE)
    recurrent_step(projected, s, z, rows, y=y)
    chosen = set(rows[rows >= 0].tolist())
    for row in range(POOL):
        assert torch.equal(s[row], before_s[row]) == (row not in chosen)
        assert torch.equal(z[row], before_z[row]) == (row not in chosen)
    assert [bool((y[i] == 7).all()) for i in range(5)] == (rows < 0).tolist()


def test_an_image_steps_the_same_in_any_company() -> None:
    projected, s, z, rows = inputs(5, 33, 17)
    alone_s, alone_z = s.clone(), z.clone()
    together = recurrent_step(projected, s, z, rows)
    alone = recurrent_step(projected[3:4].contiguous(), alone_s, alone_z, rows[3:4])
    assert torch.equal(together[3], alone[0])
    assert torch.equal(s[rows[3]], alone_s[rows[3]])
    assert torch.equal(z[rows[3]], alone_z[rows[3]])


@pytest.mark.parametrize("state_dtype", [torch.float16, torch.bfloat16])
def test_a_state_that_rests_in_16_bits_is_rounded_once_a_step(state_dtype: torch.dtype) -> None:
    projected, s, z, rows = inputs(5, 8, 5)
    s = s.to(state_dtype)
    expected_y, expected_s, _ = law(projected, s, z, rows)
    y = recurrent_step(projected, s, z, rows)
    live = rows >= 0
    assert_close("y, from sums that are not rounded yet", expected_y, y[live])
    assert_close("s", expected_s, s[rows[live]], torch.finfo(state_dtype).eps * 4)


def test_an_unknown_feature_map_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown feature map 'relu'"):
        recurrent_step(*inputs(1, 8, 5), feature_map="relu")


def test_shapes_that_do_not_fit_are_refused() -> None:
    projected, s, z, rows = inputs(5, 8, 5)
    with pytest.raises(ValueError, match="do not fit"):
        recurrent_step(projected[:, 1:].contiguous(), s, z, rows)
