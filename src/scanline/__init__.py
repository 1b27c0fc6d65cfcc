"""Scanline: inference for linear-transformer image models.

    import scanline

    model = scanline.load("mnist-small")
    model.sample(64, seed=7).save("digits.png")

The same images as `scanline sample` and the server return for that seed, byte for byte.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scanline.model.inference import Images, Model, Step
    from scanline.model.likelihood.classification import Classification
    from scanline.model.likelihood.marginal_likelihood import Estimate

    __version__: str

__all__ = ["Classification", "Estimate", "Images", "Model", "Step", "load"]


def load(
    name: str | Path | None = None,
    *,
    device: str = "auto",
    precision: str = "exact",
    threads: int | None = None,
    backend: str = "auto",
) -> "Model":
    """Load a model for painting, completing, scoring and classifying images.

    name: a shipped model's name, a model directory, or ORG/NAME or ORG/NAME@REVISION of the Hugging Face Hub; by
    default the shipped MNIST model. device: auto, cpu or cuda.
    precision: exact, int8 (CPUs) or bfloat16-state (GPUs). threads: of the CPU, by default all.
    backend: auto (the fastest that works), cuda, cuda-unchained, cuda-narrow, eager or cpu.
    Raises ValueError with one sentence where the model, the device, the precision or the backend is not to be had.
    """
    from scanline.model.inference import load

    return load(name, device=device, precision=precision, threads=threads, backend=backend)


if not TYPE_CHECKING:  # for a type checker, every name that is not above is misspelt

    def __getattr__(name: str) -> object:
        """The classes that `model.inference` returns, imported (torch with
        them) when they are first asked for.
        """
        if name == "__version__":
            from scanline.model.base import extras

            return extras.version()
        if name in __all__:
            from scanline.model import inference

            return getattr(inference, name)
        raise AttributeError(f"module 'scanline' has no attribute {name!r}")
