"""The precision of training's products follows the processor; a name chooses another."""

import os
import subprocess
import sys

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


def test_a_processor_without_avx512_multiplies_float32() -> None:
    code = "import torch, scanline.model.training.optimise.precision as p; print(p.product_dtype(torch.device('cpu')))"
    lowered = {**os.environ, "ATEN_CPU_CAPABILITY": "avx2"}
    said = subprocess.run([sys.executable, "-c", code], env=lowered, capture_output=True, text=True, check=True).stdout
    assert said == "torch.float32\n"
