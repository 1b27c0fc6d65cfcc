"""The authors' library as a baseline, where it is installed; a sentence where it is not."""

import sys

import pytest

from scanline.model.bench import fast_transformers
from tests.support import small_models


def test_it_is_told_when_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_transformers", None)
    monkeypatch.delitem(sys.modules, "fast_transformers.builders", raising=False)
    reason = fast_transformers.missing()
    assert reason is not None
    assert reason.startswith("pytorch-fast-transformers is not installed")


@pytest.mark.skipif(fast_transformers.missing() is not None, reason="pytorch-fast-transformers is not installed")
@pytest.mark.parametrize("variant", ["plain", "colour"])
def test_it_paints_whole_images_one_after_the_other(variant: str) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    baseline = fast_transformers.Authors(config, 3, "cpu")
    for _ in range(config.bytes + 1):
        baseline.paint_pixel()
    assert baseline.position == 2
    assert baseline.images[:, 1:].float().std() > 0
    baseline.measure(0.0)
    assert baseline.rate().calls == fast_transformers.LEAST
