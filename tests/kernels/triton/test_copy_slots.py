"""Copies of whole slots in Triton: those of torch's indexing, and nothing where a slot is its own source."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.triton import copy_slots as module
from scanline.kernels.triton.copy_slots import copy_slots

# Seven slots; of those chosen, 4 and 0 become slot 2, and 5 becomes slot 6. Slots 1 and 3 are not chosen.
SOURCES, TARGETS = [2, 2, 2, 6, 6], [2, 4, 0, 6, 5]
AFTER = [2, 1, 2, 3, 2, 6, 6]  # which slot each of the seven holds then


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.uint8], ids=str)
@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 20), (7, 3, 8, 6)], ids=str)
def test_targets_become_what_their_sources_hold(
    dtype: torch.dtype, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NUMBERS", 64)  # more than one program for a slot of 144 numbers
    sources, targets, array = there(torch.tensor(SOURCES), torch.tensor(TARGETS), _numbers(dtype, *shape))
    expected = array[AFTER]
    copy_slots(array, sources, targets)
    assert torch.equal(expected.view(torch.uint8), array.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_all_layers_of_a_state_are_copied(dtype: torch.dtype) -> None:
    sources, targets, array = there(torch.tensor(SOURCES), torch.tensor(TARGETS), _numbers(dtype, 3, 7, 2, 5))
    expected, address = array[:, AFTER], array.data_ptr()
    copy_slots(array, sources, targets, layered=True)
    assert torch.equal(expected, array)
    assert array.data_ptr() == address


def test_what_is_no_number_is_copied_as_it_is() -> None:
    sources, targets = there(torch.tensor([1, 1]), torch.tensor([0, 1]))
    words = torch.tensor([[1], [0x7FC12345]], dtype=torch.int32, device=DEVICE)
    copy_slots(words.view(torch.float32), sources, targets)
    assert words.tolist() == [[0x7FC12345], [0x7FC12345]]


def test_of_no_numbers_nothing_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_copy_slots", None)
    copy_slots(torch.zeros(0, 3, 4), torch.arange(3), torch.arange(3), layered=True)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sources \[2\] and targets \[3\] do not fit"):
        copy_slots(torch.zeros(4, 2), torch.arange(2), torch.arange(3))


def _numbers(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return (torch.randn(*shape) * 100).abs().to(dtype)
