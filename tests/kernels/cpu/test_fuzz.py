"""A short run of the fuzz in tests/support/kernels/native_fuzz.py; sanitize.py in this folder runs it for longer."""

import numpy as np
import pytest

from scanline.kernels import cpu as cpu_kernels
from tests.support.kernels import native_fuzz

pytestmark = pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")


@pytest.mark.parametrize("odd", [False, True], ids=["finite", "not finite"])
def test_bytes_depend_on_no_thread_call_or_instruction_set_whatever_the_numbers(odd: bool) -> None:
    for seed in range(15):
        native_fuzz.check_painting(np.random.default_rng(seed), odd)


@pytest.mark.parametrize("odd", [False, True], ids=["finite", "not finite"])
def test_read_numbers_depend_on_no_thread_whatever_they_are(odd: bool) -> None:
    for seed in range(15):
        native_fuzz.check_reading(np.random.default_rng(seed), odd)


def test_wrong_arguments_are_refused_with_a_sentence() -> None:
    for seed in range(60):
        native_fuzz.check_wrong_arguments(np.random.default_rng(seed))
