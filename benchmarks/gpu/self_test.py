"""The backend that a server would choose on this machine, and whether what it computes is the model."""

from collections.abc import Iterator

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import SHIPPED, Sizes, model
from scanline.model.bench.correctness import WrongResultError, make_reference


def self_test(sizes: Sizes) -> Iterator[Finding]:
    """The largest difference between steps and the parallel view of torch, over whole images of each shipped model."""
    for name in SHIPPED[: 1 if sizes.dry else None]:
        what = f"self_test/{name}/views_differ"
        try:
            reference = make_reference(model(name, sizes), sizes.compared[:2])
        except WrongResultError as error:
            yield Finding(what, None, note=str(error))
            continue
        yield Finding(what, reference.views_differ, "bits/dim", f"backend {reference.backend}")
