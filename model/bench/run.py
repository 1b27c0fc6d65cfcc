"""`scanline bench` in its order. Correctness comes first: if a check raises, nothing is measured."""

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from scanline.model import zoo
from scanline.model.base.machine import facts
from scanline.model.base.precision import DEFAULT, DEFERRED, precision
from scanline.model.base.state import State
from scanline.model.bench import measure, memory_over_position
from scanline.model.bench.baselines import (
    FastTransformers,
    SoftmaxCache,
    missing_library,
    too_large,
)
from scanline.model.bench.correctness import Reference, make_reference
from scanline.model.bench.measure import (
    Ceilings,
    Program,
    Rate,
    Scanline,
    measure_ceilings,
    measure_in_turns,
)
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.training.presets import PRESETS

SCHEMA = 2  # of the JSON object, which result.py documents
PARTS = ("latency", "bulk", "reading", "position", "authors", "softmax")


@dataclass(frozen=True)
class BenchOptions:
    """What a run measures, and for how long. Raises ValueError with a sentence if it is not
    possible."""

    batches: tuple[int, ...]
    seconds: float  # for each number of each program
    skip: tuple[str, ...] = ()  # of PARTS
    precision: str = DEFAULT  # of Scanline; the baselines are float32
    backend: str | None = None  # of Scanline, as of open_backend

    def __post_init__(self) -> None:
        if not self.batches or min(self.batches) < 1:
            raise ValueError(
                f"--batches: a batch has at least one image, not {min(self.batches, default=0)}"
            )
        if not 0 < self.seconds < float("inf"):
            raise ValueError(f"--seconds: must be finite and greater than 0, not {self.seconds}")
        for part in self.skip:
            if part not in PARTS:
                raise ValueError(f"--skip: unknown part {part!r}; known: {', '.join(PARTS)}")
        precision(self.precision)

    def includes(self, part: str) -> bool:
        return part not in self.skip

    @property
    def stages(self) -> int:
        """Return how many stages a run logs: the check, the ceilings, and one for each part and
        each batch size."""
        parts = [part for part in ("latency", "reading", "position") if self.includes(part)]
        return 2 + len(parts) + len(self.batches if self.includes("bulk") else ())


def load(name: str | None, random: str | None, device: str) -> Transformer:
    """Return the model of that name (the default one for None), or random weights
    in the shape of the preset `random`.

    Random weights are written to a directory and loaded from it, so that they are stored as any
    model's weights are. ValueError for an unknown name, or if both names are given.
    """
    if random is None:
        return load_model(zoo.find(name or zoo.DEFAULT), device)
    if name is not None:
        raise ValueError("--model and --random exclude each other; give one of them")
    if random not in PRESETS:
        raise ValueError(f"--random: unknown preset {random!r}; known: {', '.join(PRESETS)}")
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        save_model(Transformer(PRESETS[random].model), Path(folder))
        return load_model(Path(folder), device)


def bench(
    model: Transformer,
    name: str,
    options: BenchOptions,
    log: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """Check `model`, measure it and return the JSON object of result.py; `log` gets the name of
    each stage."""
    # First correctness, on the inputs that are measured later: a rate of wrong images means
    # nothing. It also opens the backend, whose copy of the model is then measured.
    log("checking")
    reference = make_reference(model, options.batches, options.precision, options.backend)
    model = reference.model
    config = model.config
    device = model.device.type
    # The machine's own rates, in the same run: those of another day are another machine's.
    log("ceilings")
    ceilings = measure_ceilings(config, options.batches, device, min(0.5, options.seconds))
    # Each part that was asked for; what is not measured is None in the result, not left out.
    latency: dict[str, Any] | None = None
    rates: dict[int, dict[str, Rate]] | None = None
    left_out: list[str] = []
    prefill = scoring = over_position = None
    if options.includes("latency"):
        log("one image")
        latency = {"ours": measure.one_image(model, options.seconds, reference, options.precision)}
    if options.includes("bulk"):
        rates = {}
        for batch in options.batches:
            log(f"{batch} in flight")
            # All programs of a batch in turn, so that a machine that slows down slows all of them.
            unavailable = _unavailable_baselines(model, batch, options)
            left_out += [reason for reason in unavailable.values() if reason not in left_out]
            rates[batch] = measure_in_turns(
                _programs(model, batch, options, reference, unavailable), options.seconds
            )
    # Baselines have no measurement of one image of their own: one in flight is the same.
    if latency is not None:
        for baseline in ("authors", "softmax"):
            rate = (rates or {}).get(1, {}).get(baseline)
            latency[baseline] = None if rate is None else 1 / rate.images_per_second
    if options.includes("reading"):
        log("known bytes")
        prefill, scoring = measure.known_bytes(
            model, options.seconds, reference, ceilings, options.precision
        )
    if options.includes("position"):
        log("memory over position")
        over_position = _over_position(model, options, reference)
    stored = precision(options.precision).state_dtype
    state = State.zeros(config, 1, "meta", stored, DEFERRED if device == "cuda" else 0)
    configuration = {
        "model": name,
        "device": device,
        "program": reference.program,
        **asdict(options),
    }
    configuration |= {"backend": reference.backend, "fallbacks": reference.fallbacks}
    return {
        "benchmark": "scanline bench",
        "schema": SCHEMA,
        **facts(),
        "configuration": {**configuration, "config": config.to_dict()},
        "step": {"bytes": config.step_bytes, "of_an_image": config.steps},
        "state_bytes_per_image": state.nbytes,
        "checked": {
            "images": len(reference.images),
            "batches": options.batches,
            "views_differ_bits_per_dim": reference.views_differ,
        },
        "ceilings": ceilings.to_dict(config.steps, state.traffic),
        "one_image": latency,
        "bulk": rates
        and [_bulk_row(batch, rates[batch], ceilings, config.steps) for batch in rates],
        "prefill": prefill,
        "scoring": scoring,
        "over_position": over_position,
        "left_out": left_out,
    }


def _unavailable_baselines(model: Transformer, batch: int, options: BenchOptions) -> dict[str, str]:
    """Return why baselines that were asked for cannot be measured, by name."""
    reasons = {
        "authors": missing_library(),
        "softmax": too_large(model.config, batch, model.device.type),
    }
    return {
        name: reason
        for name, reason in reasons.items()
        if reason is not None and options.includes(name)
    }


def _programs(
    model: Transformer,
    batch: int,
    options: BenchOptions,
    reference: Reference,
    unavailable: dict[str, str],
) -> dict[str, Program]:
    """Return Scanline, and the baselines that were asked for and can be measured."""
    programs: dict[str, Program] = {"ours": Scanline(model, batch, reference, options.precision)}
    if options.includes("authors") and "authors" not in unavailable:
        programs["authors"] = FastTransformers(model.config, batch, model.device.type)
    if options.includes("softmax") and "softmax" not in unavailable:
        programs["softmax"] = SoftmaxCache(model, batch)
    return programs


def _bulk_row(batch: int, rates: dict[str, Rate], ceilings: Ceilings, steps: int) -> dict[str, Any]:
    row: dict[str, Any] = {"batch": batch, "ours": None, "authors": None, "softmax": None}
    for program, rate in rates.items():
        row[program] = asdict(rate) | {
            "of_matrix_rate": ceilings.against_torch_matmul(rate.images_per_second * steps)
        }
    return row


def _over_position(
    model: Transformer, options: BenchOptions, reference: Reference
) -> dict[str, Any]:
    images = memory_over_position.IMAGES[model.device.type]
    scanline = memory_over_position.sample_scanline(
        model, reference, images, precision=options.precision
    )
    return {"ours": {"images": images, "looks": [asdict(sample) for sample in scanline]}}
