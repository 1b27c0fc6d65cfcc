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
from scanline.model.bench import measure
from scanline.model.bench.correctness import make_reference
from scanline.model.bench.measure import Scanline, measure_ceilings
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.training.presets import PRESETS

SCHEMA = 5  # of the JSON object, which result.py documents
PARTS = ("latency", "bulk", "reading")


@dataclass(frozen=True)
class BenchOptions:
    """What a run measures, and for how long. Raises ValueError with a sentence if it is not
    possible."""

    batches: tuple[int, ...]
    seconds: float  # for each number
    skip: tuple[str, ...] = ()  # of PARTS
    precision: str = DEFAULT
    backend: str | None = None  # as of open_backend

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
        parts = [part for part in ("latency", "reading") if self.includes(part)]
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
    stored = precision(options.precision).state_dtype
    state = State.zeros(config, 1, "meta", stored, DEFERRED if device == "cuda" else 0)
    # Each part that was asked for; what is not measured is None in the result, not left out.
    latency: dict[str, float] | None = None
    bulk: list[dict[str, float]] | None = None
    prefill = scoring = None
    if options.includes("latency"):
        log("one image")
        latency = measure.one_image(model, options.seconds, reference, options.precision)
    if options.includes("bulk"):
        bulk = []
        for batch in options.batches:
            log(f"{batch} in flight")
            program = Scanline(model, batch, reference, options.precision)
            try:
                program.measure(options.seconds)
                rate = program.rate()
                work = program.work
            finally:
                program.close()
            share = ceilings.against_torch_matmul(rate.images_per_second * work.rows)
            bulk.append(
                {
                    "batch": batch,
                    **asdict(rate),
                    **asdict(work),
                    **work.limits(ceilings, state.traffic),
                    "of_matrix_rate": share,
                }
            )
    if options.includes("reading"):
        log("known bytes")
        prefill, scoring = measure.known_bytes(
            model, options.seconds, reference, ceilings, options.precision
        )
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
        "ceilings": asdict(ceilings),
        "one_image": latency,
        "bulk": bulk,
        "prefill": prefill,
        "scoring": scoring,
    }
