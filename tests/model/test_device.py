"""The word for a device: one of three, and one that this machine has."""

import pytest
import torch

from scanline.model.device import resolve_device


def test_cpu_is_everywhere() -> None:
    assert resolve_device("cpu") == "cpu"


def test_auto_is_what_is_there() -> None:
    assert resolve_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no CUDA device on this machine"):
        resolve_device("cuda")


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match="the device must be auto, cpu or cuda, not 'tpu'"):
        resolve_device("tpu")
