"""The name of a device: one of three, and of a device that this machine has."""

import pytest
import torch

from scanline.model.device import resolve_device


def test_a_resolved_device_holds_tensors_and_cpu_is_the_cpu() -> None:
    assert torch.zeros(1, device=resolve_device("auto")).device.type in ("cpu", "cuda")
    assert resolve_device("cpu") == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_auto_is_the_cpu_and_cuda_an_error() -> None:
    assert resolve_device("auto") == "cpu"
    with pytest.raises(ValueError, match="there is no CUDA device on this machine"):
        resolve_device("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_with_a_gpu_auto_and_cuda_are_the_gpu() -> None:
    assert resolve_device("auto") == resolve_device("cuda") == "cuda"


def test_another_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="the device must be auto, cpu or cuda, not 'tpu'"):
        resolve_device("tpu")
