"""The authors' own library doing the same work, in turns with Scanline.

    python -m benchmarks.baselines --model mnist-small --batches 1,64

Scanline's bytes are checked first. The figures are milliseconds of a step and images/s, at each
number of images in flight; the last line is JSON.

`FastTransformers` is pytorch-fast-transformers 0.4.0 in its recurrent form, with random weights:
the model's layers, heads and widths, a value and a position embedding side by side, and a
mixture of logistics sampled in torch. It paints a byte a step, as the paper does, also where a
step of the model is a whole pixel. It is the `benchmarks` extra, has no wheels, is built against
the torch that is installed, and builds CUDA extensions wherever it finds nvcc. For a CPU build
keep nvcc out of the PATH (4 minutes):

    pip install torch setuptools
    env PATH="$(dirname "$(which python)"):/usr/bin:/bin" MAX_JOBS=1 \\
        python -m pip install --no-build-isolation -e '.[benchmarks]'
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Protocol

import torch
from torch import nn

from scanline.model.base.config import ModelConfig
from scanline.model.base.device import resolve_device
from scanline.model.base.machine import print_json
from scanline.model.bench.correctness import make_reference
from scanline.model.bench.measure import Rate, Scanline, durations
from scanline.model.bench.run import load

WARM_UP_BYTES = 8  # painted by the authors' library before any is timed
MINIMUM_BYTES = 7  # of the authors' library timed in one turn
ROUNDS = 3  # turns of each program at one number of images


class Program(Protocol):
    """A program with a batch of images in flight."""

    def measure(self, seconds: float) -> None:
        """Paint for about `seconds` and keep the times."""

    def rate(self) -> Rate:
        """Return the rate over all times kept."""

    def close(self) -> None:
        """Stop threads and free memory."""


def measure_in_turns(programs: dict[str, Program], seconds: float) -> dict[str, Rate]:
    """Return the rate of each program, measured for `seconds` each.

    They take turns, so that whatever slows the machine down for a while slows all of them down.
    """
    try:
        for _ in range(ROUNDS):
            for program in programs.values():
                program.measure(seconds / ROUNDS)
        return {name: program.rate() for name, program in programs.items()}
    finally:
        for program in programs.values():
            program.close()


def missing_library() -> str | None:
    """Return why the authors' library cannot be measured here; None where it can."""
    try:
        import fast_transformers.builders  # noqa: F401
    except ModuleNotFoundError:
        return f"pytorch-fast-transformers is not installed; {__file__} says how to install it"
    except ImportError as error:
        return f"pytorch-fast-transformers cannot be loaded: {error}"
    return None


class FastTransformers:
    """`batch` images, painted byte by byte as a user of the authors' library would write it."""

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
        self.config = config
        self.batch = batch
        self.device = device
        self.transformer = builder.get().eval().to(device)
        self.values = nn.Embedding(256, config.model_width - half, device=device)
        self.positions = torch.randn(config.bytes, half, device=device)
        self.predictor = nn.Linear(config.model_width, 3 * config.components, device=device)
        self.images = torch.zeros(batch, config.bytes, dtype=torch.int64, device=device)
        self.state = None
        self.position = 0
        self.times: list[float] = []

    @torch.inference_mode()
    def paint_byte(self) -> None:
        """Paint the next byte of every image; after the last byte, the first of new images."""
        if self.position == self.config.bytes - 1:
            self.state = None
            self.position = 0
        position = self.positions[self.position].expand(self.batch, -1)
        x = torch.cat((self.values(self.images[:, self.position]), position), dim=1)
        output, self.state = self.transformer(x, self.state)
        logits, means, log_scales = self.predictor(output).chunk(3, dim=1)
        component = torch.multinomial(logits.softmax(dim=1), 1)
        mean = means.gather(1, component)
        scale = log_scales.gather(1, component).clamp(min=-7).exp()
        u = torch.rand_like(mean).clamp(1e-5, 1 - 1e-5)
        x = (mean + scale * (u.log() - (1 - u).log())).clamp(-1, 1)
        self.position += 1
        self.images[:, self.position] = ((x + 1) * 127.5).round().long().squeeze(1)

    def measure(self, seconds: float) -> None:
        if not self.times:
            for _ in range(WARM_UP_BYTES):
                self.paint_byte()
        self.times += durations(self.paint_byte, seconds, self.device, MINIMUM_BYTES)

    def rate(self) -> Rate:
        """Return its rate: a step of it is a byte, whatever a step of the model is."""
        return Rate.from_steps(self.batch, self.config.bytes - self.config.first, self.times)

    def close(self) -> None:
        self.state = None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.baselines", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--model", help="name or directory; mnist-small by default")
    parser.add_argument("--random", help="measure random weights of this preset instead")
    parser.add_argument("--batches", default="1,4,16,64,256", help="numbers of images in flight")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each program and number")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(arguments)
    reason = missing_library()
    if reason is not None:
        parser.error(reason)
    batches = [int(number) for number in options.batches.split(",")]
    model = load(options.model, options.random, resolve_device(options.device))
    reference = make_reference(model, batches)
    rows: list[dict[str, object]] = []
    for batch in batches:
        ours = Scanline(reference.model, batch, reference)
        authors = FastTransformers(model.config, batch, model.device.type)
        rates = measure_in_turns({"ours": ours, "authors": authors}, options.seconds)
        row: dict[str, object] = {"batch": batch}
        for name, rate in rates.items():
            gain = rates["ours"].images_per_second / rate.images_per_second
            step = f"{rate.step_ms_median:.3f} ms a step, p99 {rate.step_ms_p99:.3f}"
            speed = f"{rate.images_per_second:.4g} images/s; ours {gain:.1f} times"
            print(f"{batch} in flight, {name}: {step}, {speed}")
            row[name] = asdict(rate)
        rows.append(row)
    print_json("baselines", vars(options) | {"backend": reference.backend}, rows=rows)


if __name__ == "__main__":
    main()
