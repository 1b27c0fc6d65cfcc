"""The precision of training's products follows the processor; a name chooses another."""

import pytest
import torch

from scanline.model.training.optimise.precision import product_dtype

CPU = torch.device("cpu")


def test_a_named_precision_is_taken_and_an_unknown_one_refused() -> None:
    assert product_dtype(CPU, "float32") == torch.float32
    assert product_dtype(CPU, "bfloat16") == torch.bfloat16
    with pytest.raises(ValueError, match="precision must be one of float32, bfloat16, not 'float16'"):
        product_dtype(CPU, "float16")


def test_bfloat16_is_the_default_where_the_processor_multiplies_it() -> None:
    capable = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    assert product_dtype(CPU) == (torch.bfloat16 if capable and wide else torch.float32)


def test_a_processor_whose_vectors_are_not_those_of_avx512_multiplies_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert product_dtype(CPU) == torch.float32
