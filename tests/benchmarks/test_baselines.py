"""The authors' library, which benchmarks/ compares Scanline with."""

import sys

import pytest

from benchmarks import baselines
from benchmarks.baselines import FastTransformers, missing_library
from tests.support import small_models


def test_a_missing_library_is_reported(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "fast_transformers", None)
    monkeypatch.delitem(sys.modules, "fast_transformers.builders", raising=False)
    with pytest.raises(SystemExit):
        baselines.main([])
    assert "pytorch-fast-transformers is not installed; " in capsys.readouterr().err


@pytest.mark.skipif(
    missing_library() is not None, reason="pytorch-fast-transformers is not installed"
)
@pytest.mark.parametrize("variant", ["plain", "colour", "pixels"])
def test_it_paints_whole_images_one_after_the_other(variant):
    config = small_models.config_of(variant)
    baseline = FastTransformers(config, 3, "cpu")
    for _ in range(config.bytes + 1):
        baseline.paint_byte()
    assert baseline.position == 2
    assert len(baseline.images[:, 1:].unique()) > 2
    baseline.measure(0.0)
    rate = baseline.rate()
    assert rate.calls == baselines.MINIMUM_BYTES
    assert rate.images_per_second == pytest.approx(3e3 / (config.bytes * rate.step_ms_median))
