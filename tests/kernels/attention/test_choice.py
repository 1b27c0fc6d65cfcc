"""On a GPU, attention runs by Triton where the kernels run there at these widths, else by torch."""

import logging
from collections.abc import Iterator

import pytest
import torch

from scanline.kernels import attention, gpu
from scanline.kernels.attention import chunked
from scanline.kernels.attention import triton as kernels
from tests.support.kernels.gpu import DEVICE

PLACE = torch.device(DEVICE)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A GPU that lacks nothing, so far as it is asked; without one, the interpreter."""
    attention._best_on_gpu.cache_clear()
    monkeypatch.setattr(gpu, "missing", lambda device: None)
    for name in ("LONG", "SEGMENT"):  # few positions, for the interpreter, and still all kernels
        monkeypatch.setattr(kernels, name, 16)
    yield monkeypatch
    attention._best_on_gpu.cache_clear()


@pytest.mark.parametrize("gradients", [False, True])
def test_kernels_that_run_are_used(card: pytest.MonkeyPatch, gradients: bool) -> None:
    with torch.inference_mode(not gradients):
        found = attention._best_on_gpu(PLACE, torch.float32, 8, 6, gradients)
    assert found is kernels.causal_linear_attention


@pytest.mark.parametrize("kernel", ["walk_states", "walk_later_states"])
def test_kernels_that_do_not_fit_the_card_are_not_used_and_one_line_says_why(
    card: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kernel: str
) -> None:
    class TooLarge:
        def __getitem__(self, grid: tuple[int]) -> "TooLarge":
            return self

        def __call__(self, *arguments: object, **options: object) -> None:
            raise RuntimeError("out of resource: shared memory, Required: 196608, Hardware limit: 101376.")

    card.setattr(kernels, kernel, TooLarge())
    with caplog.at_level(logging.WARNING):
        found = attention._best_on_gpu(PLACE, torch.float32, 8, 6, True)
    assert found is chunked.causal_linear_attention
    (line,) = (record.message for record in caplog.records)
    assert line == (
        "causal attention of 8 x 6, torch.float32, with gradients: by torch, which is slower (RuntimeError: out of"
        " resource: shared memory, Required: 196608, Hardware limit: 101376.)"
    )


def test_a_card_that_lacks_something_is_not_tried(card: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    card.setattr(gpu, "missing", lambda device: "Triton is not installed")
    with caplog.at_level(logging.WARNING):
        found = attention._best_on_gpu(PLACE, torch.float32, 8, 6, False)
    assert found is chunked.causal_linear_attention
    assert "Triton is not installed" in caplog.text
