"""The same work by the authors' own library in its recurrent form: random weights in the same shape, a value and a
position embedding side by side, a mixture of logistics sampled in torch.

It needs pytorch-fast-transformers 0.4.0 (the `benchmarks` extra), which has no wheels, wants torch and setuptools there
before it is built, and builds CUDA extensions wherever it finds an nvcc; for a CPU build keep nvcc out of the PATH:

    pip install torch setuptools
    env PATH="$(dirname "$(which python)"):/usr/bin:/bin" MAX_JOBS=1 \\
        python -m pip install --no-build-isolation -e '.[benchmarks]'      (4 minutes)
"""

import torch
from torch import nn

from scanline.model.bench.baseline import Rate
from scanline.model.bench.machine import durations
from scanline.model.config import ModelConfig

UNCOUNTED = 8  # pixels painted before any is timed
LEAST = 7  # pixels timed in one turn


def missing() -> str | None:
    """Why the authors' library cannot be measured here; None where it can."""
    try:
        import fast_transformers.builders  # noqa: F401
    except ModuleNotFoundError:
        return f"pytorch-fast-transformers is not installed; {__file__} says how to install it"
    except ImportError as error:
        return f"pytorch-fast-transformers cannot be loaded: {error}"
    return None


class Authors:
    """`batch` images, painted pixel by pixel as a user of the library would write it."""

    def __init__(self, config: ModelConfig, batch: int, device: str) -> None:
        from fast_transformers.builders import RecurrentEncoderBuilder

        builder = RecurrentEncoderBuilder.from_kwargs(
            attention_type="linear",
            n_layers=config.layers,
            n_heads=config.heads,
            query_dimensions=config.key_width,
            value_dimensions=config.value_width,
            feed_forward_dimensions=config.feed_forward,
        )
        half = config.model_width // 2
        self.config, self.batch, self.device = config, batch, device
        self.transformer = builder.get().eval().to(device)
        self.values = nn.Embedding(256, config.model_width - half, device=device)
        self.places = torch.randn(config.bytes, half, device=device)
        self.predictor = nn.Linear(config.model_width, 3 * config.components, device=device)
        self.images = torch.zeros(batch, config.bytes, dtype=torch.int64, device=device)
        self.state, self.position = None, 0
        self.times: list[float] = []

    @torch.inference_mode()
    def paint_pixel(self) -> None:
        """The next byte of every image; after the last one, the first of new images."""
        if self.position == self.config.bytes - 1:
            self.state, self.position = None, 0
        place = self.places[self.position].expand(self.batch, -1)
        x = torch.cat((self.values(self.images[:, self.position]), place), dim=1)
        output, self.state = self.transformer(x, self.state)
        logits, means, log_scales = self.predictor(output).chunk(3, dim=1)
        picked = torch.multinomial(logits.softmax(dim=1), 1)
        mean, scale = means.gather(1, picked), log_scales.gather(1, picked).clamp(min=-7).exp()
        u = torch.rand_like(mean).clamp(1e-5, 1 - 1e-5)
        x = (mean + scale * (u.log() - (1 - u).log())).clamp(-1, 1)
        self.position += 1
        self.images[:, self.position] = ((x + 1) * 127.5).round().long().squeeze(1)

    def measure(self, seconds: float) -> None:
        if not self.times:
            for _ in range(UNCOUNTED):
                self.paint_pixel()
        self.times += durations(self.paint_pixel, seconds, self.device, LEAST)

    def rate(self) -> Rate:
        return Rate.of(self.batch, self.config.bytes, self.times)

    def close(self) -> None:
        self.state = None
