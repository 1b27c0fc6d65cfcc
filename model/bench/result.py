"""What a run found, and the JSON object that programs read, schema 1. What was skipped is null; rates are per second.

benchmark, schema, date, machine {cpu, cores, threads, isa, gpu?}, others_share_of_cpu, commit, torch, python
configuration   {model, precision, device, program, batches, seconds, skip, config: as config.json has it}
state_bytes_per_image
checked         {images, batches, views_differ_bits_per_dim}
ceilings        {matrix_flop, matrix_rows, square_flop, copy_bytes, flop_per_image, products_ms: {rows: ms of a step},
                 images_by_products, images_by_state_traffic}
one_image       {ours: {seconds_median, seconds_p99, calls}, authors: seconds, softmax: seconds}, a baseline's being N
                of its steps with one image in flight; null where that was not among the batches
bulk            [{batch, ours: RATE, authors: RATE, softmax: RATE}], a baseline null where it could not be measured
                RATE {step_ms_median, step_ms_p99, images_per_second, of_matrix_rate, calls}; softmax: means over
                an image, and positions: [{position, step_ms_median}]
prefill         {images, bytes_of_each, seconds_median, calls, bytes_per_second, of_matrix_rate}
scoring         the same, and images_per_second
over_position   {ours: LOOKS, softmax: LOOKS}
                LOOKS {images, looks: [{position, step_ms_median, tensor_bytes, process_bytes}]}: ms of all images
                together, bytes of one
left_out        [sentence]: why a baseline that was asked for is null
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from scanline.model.bench.baseline import Rate
from scanline.model.bench.ceilings import Ceilings
from scanline.model.bench.correctness import Reference
from scanline.model.bench.machine import facts
from scanline.model.bench.memory_over_position import Looks
from scanline.model.bench.plan import Plan
from scanline.model.bench.prefill import Reading
from scanline.model.config import ModelConfig
from scanline.model.precision import precision

SCHEMA = 1
BASELINES = ("authors", "softmax")


@dataclass
class Measured:
    """The numbers of one run, part by part."""

    checked: Reference
    ceilings: Ceilings
    alone: list[float] | None = None  # seconds
    bulk: list[dict[str, Rate]] | None = None  # by program
    prefill: Reading | None = None
    scoring: Reading | None = None
    looks: dict[str, Looks] | None = None  # by program
    left_out: list[str] = field(default_factory=list)

    def to_dict(self, name: str, config: ModelConfig, device: str, plan: Plan) -> dict[str, Any]:
        """The JSON object."""
        asked = {"model": name, "device": device, "program": self.checked.program, **asdict(plan)}
        state_bytes = precision(plan.precision).state_bytes(config)
        return {
            "benchmark": "scanline bench",
            "schema": SCHEMA,
            **facts(),
            "configuration": {**asked, "config": config.to_dict()},
            "state_bytes_per_image": state_bytes,
            "checked": {
                "images": len(self.checked.images),
                "batches": plan.batches,
                "views_differ_bits_per_dim": self.checked.views_differ,
            },
            "ceilings": self._ceilings(config.bytes, state_bytes),
            "one_image": self._one_image(config.bytes),
            "bulk": self.bulk and [self._bulk(rates, config.bytes) for rates in self.bulk],
            "prefill": self._reading(self.prefill),
            "scoring": self._scoring(),
            "over_position": self.looks and {name: asdict(looks) for name, looks in self.looks.items()},
            "left_out": self.left_out,
        }

    def _ceilings(self, length: int, state_bytes: int) -> dict[str, Any]:
        found, flop = self.ceilings, self.ceilings.flop_per_byte * length
        return {
            "matrix_flop": found.matrix_flop,
            "matrix_rows": found.best_rows,
            "square_flop": found.square_flop,
            "copy_bytes": found.copy_bytes,
            "flop_per_image": flop,
            "products_ms": {str(rows): 1e3 * seconds for rows, seconds in found.products_seconds.items()},
            "images_by_products": found.matrix_flop / flop,
            "images_by_state_traffic": found.copy_bytes / (2 * state_bytes * length),
        }

    def _one_image(self, length: int) -> dict[str, Any] | None:
        if self.alone is None:
            return None
        median, p99 = (float(np.percentile(self.alone, q)) for q in (50, 99))
        single = next((rates for rates in self.bulk or [] if rates["ours"].batch == 1), {})
        steps = {name: single[name].step_ms_median if name in single else None for name in BASELINES}
        baselines = {name: None if ms is None else ms * length / 1e3 for name, ms in steps.items()}
        return {"ours": {"seconds_median": median, "seconds_p99": p99, "calls": len(self.alone)}, **baselines}

    def _bulk(self, rates: dict[str, Rate], length: int) -> dict[str, Any]:
        row: dict[str, Any] = {"batch": rates["ours"].batch, "ours": None, **dict.fromkeys(BASELINES)}
        for name, rate in rates.items():
            numbers = {key: value for key, value in asdict(rate).items() if key not in ("batch", "more")}
            row[name] = numbers | {"of_matrix_rate": self._share(rate.images_per_second * length)} | rate.more
        return row

    def _reading(self, read: Reading | None) -> dict[str, Any] | None:
        if read is None:
            return None
        rate = read.bytes_per_second
        return asdict(read) | {"bytes_per_second": rate, "of_matrix_rate": self._share(rate)}

    def _scoring(self) -> dict[str, Any] | None:
        found = self._reading(self.scoring)
        return found and found | {"images_per_second": found["images"] / found["seconds_median"]}

    def _share(self, bytes_per_second: float) -> float:
        """Of the float32 matrix rate, by the products behind those bytes alone."""
        return bytes_per_second * self.ceilings.flop_per_byte / self.ceilings.matrix_flop
