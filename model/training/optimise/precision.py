"""The precision of training's products: bfloat16 where the processor multiplies it in hardware,
else float32.

It belongs to the machine, not to the recipe: no preset has one. Weights, running sums, norms, the
head and the likelihood are float32 in either.
"""

import torch

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def product_dtype(device: torch.device, precision: str | None = None) -> torch.dtype:
    """Return the dtype of products on the device: that of `precision`, by default the fastest that
    is good enough.

    ValueError for an unknown precision.
    """
    if precision is not None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
        return PRECISIONS[precision]
    multiplies = False
    if device.type == "cuda":
        multiplies = torch.cuda.is_bf16_supported(including_emulation=False)
    # The capability, which ATEN_CPU_CAPABILITY lowers, before the processor's own answer, which it
    # does not.
    elif device.type == "cpu" and torch.backends.cpu.get_cpu_capability() == "AVX512":
        multiplies = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if multiplies else torch.float32
