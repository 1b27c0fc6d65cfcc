"""Devices, backends and precisions by name."""

import pytest
import torch

from scanline.model.backends import open_backend
from scanline.model.base import device as devices
from scanline.model.base.device import resolve_backend, resolve_device
from scanline.model.base.precision import DEFERRED, PRECISIONS
from scanline.model.base.state import State
from tests.support import small_models


def test_a_resolved_device_holds_tensors_and_cpu_is_the_cpu():
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert (
        torch.zeros(1, device=resolve_device("auto")).device.type
        == resolve_device("auto")
        == expected
    )
    assert resolve_device("cpu") == "cpu"
    assert resolve_backend("auto", "cpu") == resolve_backend("cpu", "cpu") == ("cpu", "cpu")
    assert resolve_backend("cpu", "eager") == ("cpu", "eager")
    assert resolve_backend("cpu") == ("cpu", None)
    with pytest.raises(ValueError, match="the device must be auto, cpu or cuda, not 'tpu'"):
        resolve_device("tpu")


@pytest.mark.parametrize(
    ("backend", "devices"),
    [
        ("tpu", "auto cpu"),
        ("cpu", "cuda"),
        ("cuda", "cpu"),
        ("cuda-unchained", "cpu"),
        ("cpu", "tpu"),
    ],
)
def test_a_device_and_a_backend_that_exclude_each_other_are_an_error(backend, devices):
    for device in devices.split():
        with pytest.raises(
            ValueError, match=r"^the backend (must be one of auto, cuda|\S+ runs on --device)"
        ):
            resolve_backend(device, backend)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_it_and_its_backends_are_an_error():
    assert resolve_backend("auto") == ("cpu", None)
    for device, backend in (
        ("cuda", "auto"),
        *(("auto", f"cuda{kind}") for kind in ("", "-unchained", "-narrow")),
    ):
        with pytest.raises(ValueError, match="there is no CUDA device on this machine"):
            resolve_backend(device, backend)
    assert "\n" not in (devices._unusable_gpu() or "\n")


@pytest.fixture
def gpu_of(monkeypatch):
    """A machine with a GPU that does not work for the reason given, or works."""

    def has(reason):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(devices, "_unusable_gpu", lambda: reason)

    return has


def test_all_backends_of_a_gpu_are_tried_and_the_cpu_only_on_device_auto(gpu_of):
    gpu_of(None)
    assert resolve_backend("auto") == ("cuda", None)
    assert resolve_backend("cuda") == ("cuda", "cuda,cuda-unchained,cuda-narrow,eager")
    assert resolve_backend("auto", "cuda-unchained") == ("cuda", "cuda-unchained")
    assert resolve_backend("auto", "eager") == ("cuda", "eager")


def test_a_gpu_that_does_not_work_is_an_error_where_asked_for(gpu_of, caplog):
    gpu_of("AcceleratorError: CUDA error: no kernel image is available")
    assert resolve_backend("auto") == ("cpu", None)
    assert [record.message for record in caplog.records if record.name == "scanline.model"] == [
        "the CUDA device is not used: AcceleratorError: CUDA error: no kernel image is available"
    ]
    for device, backend in (("cuda", "auto"), ("auto", "cuda")):
        with pytest.raises(
            ValueError, match=r"^the CUDA device does not work: AcceleratorError: CUDA error"
        ):
            resolve_backend(device, backend)


@pytest.mark.parametrize(
    ("name", "backend", "sentence"),
    [
        ("int4", None, "unknown precision 'int4'; known: exact, int8, bfloat16-state"),
        ("bfloat16-state", None, "precision 'bfloat16-state' needs a GPU"),
        ("bfloat16-state", "cpu", "precision 'bfloat16-state' needs a GPU"),
        ("bfloat16-state", "eager", "precision 'bfloat16-state' needs a GPU"),
        ("int8", "eager", "precision 'int8' needs one of the backends cuda, cuda-unchained, cpu"),
    ],
)
def test_a_precision_that_cannot_run_here_is_refused(name, backend, sentence):
    with pytest.raises(ValueError, match=sentence):
        open_backend(
            small_models.model(small_models.config()), 1, precision_name=name, backend=backend
        )


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("variant", ["plain", "pixels"])
def test_the_bytes_of_a_state_are_those_that_it_takes(name, variant):
    config = small_models.config_of(variant)
    precision = PRECISIONS[name]
    for device, deferred in (("cpu", 0), ("cuda", DEFERRED)):
        state = State.zeros(config, 1, state_dtype=precision.state_dtype, deferred=deferred)
        assert precision.state_bytes(config, device) == state.nbytes


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA H200", 989),
        ("NVIDIA GH200 480GB", 989),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA GeForce RTX 4090", 165),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA A10", None),
        ("Tesla T4", None),
    ],
)
def test_the_peak_is_that_of_the_card_and_not_of_one_with_a_like_name(name, peak):
    assert devices.peak_of(name) == peak
