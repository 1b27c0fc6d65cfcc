"""The compiled CPU kernel, where there is one: what is skipped elsewhere, and what runs here."""

import pytest

from scanline.kernels import cpu as cpu_kernels

NATIVE = pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")
BACKENDS = [pytest.param("cpu", marks=NATIVE), "eager"]
ISAS = cpu_kernels.instruction_sets() if cpu_kernels.available() else []
