"""The authors' library as a baseline where it is installed; a sentence that says why not where it is not."""

import sys

import pytest

from scanline.model.bench import baselines
from scanline.model.bench.baselines import FastTransformers, missing_library
from tests.support import small_models


def test_a_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_transformers", None)
    monkeypatch.delitem(sys.modules, "fast_transformers.builders", raising=False)
    reason = missing_library()
    assert reason is not None
    assert reason.startswith("pytorch-fast-transformers is not installed")


@pytest.mark.skipif(missing_library() is not None, reason="pytorch-fast-transformers is not installed")
@pytest.mark.parametrize("variant", ["plain", "colour", "pixels"])
def test_it_paints_whole_images_one_after_the_other(variant: str) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    baseline = FastTransformers(config, 3, "cpu")
    for _ in range(config.bytes + 1):
        baseline.paint_byte()
    assert baseline.position == 2
    assert len(baseline.images[:, 1:].unique()) > 2
    baseline.measure(0.0)
    rate = baseline.rate()
    assert rate.calls == baselines.MINIMUM_BYTES
    assert rate.images_per_second == pytest.approx(3e3 / (config.bytes * rate.step_ms_median))
