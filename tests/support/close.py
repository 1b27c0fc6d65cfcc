"""assert_close: how tests check that two tensors agree up to
rounding, with one bound everywhere.
"""

# float32 against float64 or another order of the same sums: 8e-6 is the largest error seen
BOUND = 5e-5


def assert_close(label, reference, result, bound=BOUND):
    """Fails where the largest difference exceeds `bound` times the
    root mean square of `reference`.
    """
    __tracebackhide__ = True
    assert result.shape == reference.shape, (
        f"{label}: shape {list(result.shape)}, not {list(reference.shape)}"
    )
    reference = reference.detach().double()
    result = result.detach().double()
    assert result.isfinite().all(), f"{label}: not all finite"
    largest = (reference - result).abs().max().item()
    size = reference.square().mean().sqrt().item()
    assert largest <= bound * size, (
        f"{label}: off by {largest:.3g} where values are about {size:.3g}"
    )
