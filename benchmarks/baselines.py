"""Two other programs for the same work, in turns with Scanline: the authors' own library, and
softmax attention with a key-value cache.

    python -m benchmarks.baselines --model mnist-small --batches 1,64 --skip softmax

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

`SoftmaxCache` is the paper's stateful softmax: the model's own weights and steps, with softmax
attention over the keys and values of all earlier steps instead of linear attention over a state.
The cache and the time of a step grow with the position, so the time of an image is integrated over
its steps. The cache is allocated once, at full length, so that nothing is copied as it grows (the
authors' recurrent softmax concatenates), and attention is torch's fused kernel.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from scanline.model.base.config import ModelConfig
from scanline.model.base.device import resolve_device
from scanline.model.base.machine import print_json
from scanline.model.base.resources import free_memory
from scanline.model.base.state import State
from scanline.model.bench.correctness import Reference, make_reference
from scanline.model.bench.measure import Rate, Scanline, durations
from scanline.model.bench.run import load
from scanline.model.network.layer import Layer
from scanline.model.network.transformer import Transformer

WARM_UP_BYTES = 8  # painted by the authors' library before any is timed
MINIMUM_BYTES = 7  # of the authors' library timed in one turn
TIMED_STEPS = 5  # of an image, from the first to the last, at which the softmax cache is timed
ROOM = 0.8  # share of the available memory that caches may take
ROUNDS = 3  # turns of each program at one number of images
NAMES = ("authors", "softmax")


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


class SoftmaxCache:
    """`batch` images; a step reads the cache of all steps before it and extends it."""

    def __init__(self, model: Transformer, batch: int) -> None:
        config = model.config
        self.model = model
        self.batch = batch
        self.device = model.device.type
        shape = (config.layers, batch, config.heads, config.steps)
        self.keys = torch.empty(*shape, config.key_width, device=model.device)
        self.values = torch.empty(*shape, config.value_width, device=model.device)
        for cache in (self.keys, self.values):
            # untouched pages would take no memory
            cache.copy_(torch.randn(cache.shape[2:], device=model.device))
        self.images = torch.zeros(batch, config.bytes, dtype=torch.uint8, device=model.device)
        self.conv_state = State.zeros(config, batch, model.device).conv_state
        timed = np.linspace(0, config.steps - 1, TIMED_STEPS).astype(int)
        self.times: dict[int, list[float]] = {step: [] for step in sorted(set(timed.tolist()))}

    @torch.inference_mode()
    def parameters(self, step: int) -> torch.Tensor:
        """Return [B, P] for step `step` of every image; add that
        step's keys and values to the cache.
        """
        model = self.model
        position = self._position(step)
        at = torch.full((self.batch, 1), position, device=model.device)
        conv = model.step_conv(at[:, 0], self.conv_state)
        x, base = model._read_in(self.images, at, None, conv)
        x = x.squeeze(1)
        for layer, keys, values in zip(model.layers, self.keys, self.values, strict=True):
            q, keys[:, :, step], values[:, :, step] = project(layer, x)
            seen = slice(step + 1)
            attended = F.scaled_dot_product_attention(
                q.unsqueeze(2), keys[:, :, seen], values[:, :, seen]
            )
            x = layer._finish(x, attended.flatten(1), conv, None)
        return model._read_out(x.unsqueeze(1), base).squeeze(1)

    def paint_step(self, step: int) -> None:
        """Paint the bytes of step `step` of every image."""
        position = self._position(step)
        size = self.model.config.step_bytes
        u = torch.rand(self.batch, size, 2, device=self.model.device).clamp(1e-5, 1 - 1e-5)
        temperature = torch.ones(self.batch, device=self.model.device)
        values = self.images[:, position : position + size]
        known = torch.zeros_like(values, dtype=torch.bool)
        values.copy_(
            self.model.distribution.sample(self.parameters(step), u, temperature, values, known)
        )

    def measure(self, seconds: float) -> None:
        for step in self.times:
            self.times[step] += durations(
                partial(self.paint_step, step), seconds / len(self.times), self.device
            )

    def rate(self) -> Rate:
        """Return the median and p99 of each timed step, averaged over the steps of an image."""
        median, p99 = (self._mean_over_steps(q) for q in (50, 99))
        calls = sum(len(times) for times in self.times.values())
        return Rate(1e3 * median, 1e3 * p99, self.batch / (self.model.config.steps * median), calls)

    def close(self) -> None:
        del self.keys, self.values

    def _position(self, step: int) -> int:
        """Return the first byte of a step."""
        return self.model.config.first + step * self.model.config.step_bytes

    def _mean_over_steps(self, q: float) -> float:
        """Return the q-th percentile of a step's seconds, linear between the
        timed steps, averaged over all steps.
        """
        seconds = [float(np.percentile(times, q)) for times in self.times.values()]
        timed = list(self.times)
        span = timed[-1] - timed[0]
        return float(np.trapezoid(seconds, timed)) / span if span else seconds[0]


def project(layer: Layer, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q, k [..., H, C] and v [..., H, M] of x [..., D], without a feature map."""
    config = layer.config
    keys = config.heads * config.key_width
    x = layer.attention_norm(x) if config.norm == "pre" else x
    q, k, v = layer.query_key_value(x).split((keys, keys, config.model_width), dim=-1)
    heads = (config.heads, -1)
    return q.unflatten(-1, heads), k.unflatten(-1, heads), v.unflatten(-1, heads)


def cache_bytes(config: ModelConfig) -> int:
    """Return the bytes of the keys and values of one whole image, float32, all layers."""
    return 4 * config.layers * config.heads * (config.key_width + config.value_width) * config.steps


def too_large(config: ModelConfig, batch: int, device: str) -> str | None:
    """Return why the caches of `batch` whole images cannot be
    held in memory; None where they can.
    """
    needed = batch * cache_bytes(config)
    available = torch.cuda.mem_get_info()[0] if device == "cuda" else free_memory()
    if needed < ROOM * available:
        return None
    return f"the softmax cache of {batch} images needs {needed / 1e9:.1f} GB and {available / 1e9:.1f} GB are available"


def unavailable(config: ModelConfig, batch: int, device: str) -> dict[str, str]:
    """Return why baselines cannot be measured here, by name."""
    reasons = {"authors": missing_library(), "softmax": too_large(config, batch, device)}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def compare(
    model: Transformer, batch: int, reference: Reference, seconds: float, names: Sequence[str]
) -> dict[str, Rate]:
    """Return the rates of Scanline ("ours") and of these baselines with `batch` images in flight,
    measured for so many seconds each."""
    programs: dict[str, Program] = {"ours": Scanline(model, batch, reference)}
    if "authors" in names:
        programs["authors"] = FastTransformers(model.config, batch, model.device.type)
    if "softmax" in names:
        programs["softmax"] = SoftmaxCache(model, batch)
    return measure_in_turns(programs, seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.baselines", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--model", help="name or directory; mnist-small by default")
    parser.add_argument("--random", help="measure random weights of this preset instead")
    parser.add_argument("--batches", default="1,4,16,64,256", help="numbers of images in flight")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each program and number")
    parser.add_argument("--skip", choices=NAMES, nargs="*", default=[])
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(arguments)
    batches = [int(number) for number in options.batches.split(",")]
    model = load(options.model, options.random, resolve_device(options.device))
    reference = make_reference(model, batches)
    rows: list[dict[str, Any]] = []
    for batch in batches:
        reasons = unavailable(model.config, batch, model.device.type)
        names = [name for name in NAMES if name not in options.skip and name not in reasons]
        rates = compare(reference.model, batch, reference, options.seconds, names)
        for name, rate in rates.items():
            times = rates["ours"].images_per_second / rate.images_per_second
            print(
                f"{batch} in flight, {name}: {rate.step_ms_median:.3f} ms a step, p99 {rate.step_ms_p99:.3f},"
                f" {rate.images_per_second:.4g} images/s; ours {times:.1f} times"
            )
        for name, reason in reasons.items():
            if name not in options.skip:
                print(f"{batch} in flight, {name}: {reason}")
        rows.append({"batch": batch, **{name: asdict(rate) for name, rate in rates.items()}})
    print_json("baselines", vars(options) | {"backend": reference.backend}, rows=rows)


if __name__ == "__main__":
    main()
