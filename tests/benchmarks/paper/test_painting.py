"""What is extrapolated is what painting would take, and every method of the tables gives a point."""

import numpy as np
import pytest

from benchmarks.paper.painting import METHODS, QUICK_SIZES, lengths, measure, missing, summed


def test_an_image_is_the_sum_of_its_passes() -> None:
    def seconds(n: int) -> float:
        return 0.5 + 0.01 * n + 0.002 * n * n

    assert summed({n: seconds(n) for n in lengths(100, 1)}, 100, 1) == pytest.approx(
        sum(seconds(n) for n in range(1, 101))
    )
    in_chunks = sum(seconds(10 * -(-n // 10)) for n in range(1, 101))
    assert summed({n: seconds(n) for n in lengths(100, 10)}, 100, 10) == pytest.approx(in_chunks)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_measured(method: str) -> None:
    for size in QUICK_SIZES:
        for batch in size.batches(method):
            if reason := missing(size, method, batch):
                pytest.skip(reason)
            point = measure(size, method, batch, 0.01)
            assert point["images_per_second"] * point["image_seconds"] == pytest.approx(batch)
            state = point["state_bytes"]
            if method.startswith("linear"):
                assert state == size.config.state_bytes_per_image
            elif method == "stateful softmax":
                assert state == 4 * size.config.layers * 2 * size.config.model_width * size.config.steps
            else:
                assert state == 0
                assert np.isfinite(list(point["passes"].values())).all()
