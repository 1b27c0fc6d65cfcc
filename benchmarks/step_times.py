"""Time of one step of one image at growing positions: linear attention, and softmax attention with a key-value cache.

Both run the same network in torch on one thread, at the paper's MNIST size with random weights and images of 128 x 128
pixels, and differ by attention alone. Linear attention costs the same at every step; softmax reads all keys and values
so far. Writes `server/web/src/how/step_times.json`, which the page draws: milliseconds of processor time of the fastest
of some calls, which other programs have interrupted least.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import torch

from scanline.model.bench.baselines import SoftmaxCache
from scanline.model.machine import facts
from scanline.model.network.transformer import Transformer
from scanline.model.resources import one_torch_thread
from scanline.model.state import State
from scanline.model.training.presets import PRESETS

RECORDED = Path(__file__).parents[1] / "server/web/src/how/step_times.json"
STEPS = (1, 784, *range(2048, 16385, 2048))  # counted from 1; 784 are those of a digit
ROUNDS, CALLS = 8, 10  # turns of each number, and the calls of a turn

torch.manual_seed(0)
config = replace(PRESETS["mnist"].model, height=128, width=128)
model = Transformer(config).eval()
cache, state, image = SoftmaxCache(model, 1), State.zeros(config, 1), torch.zeros(1, config.bytes, dtype=torch.uint8)


@torch.inference_mode()
def linear(step: int) -> None:
    """Run step `step`, from 0."""
    state.position.fill_(config.first + step)
    model.step(image, state)


times: dict[str, list[list[float]]] = {name: [[] for _ in STEPS] for name in ("linear", "softmax")}
with one_torch_thread():
    for turn in range(ROUNDS * len(STEPS)):
        for name, call in (("linear", linear), ("softmax", cache.parameters)):
            for _ in range(CALLS):
                began = time.process_time()
                call(STEPS[turn % len(STEPS)] - 1)
                times[name][turn % len(STEPS)].append(1e3 * (time.process_time() - began))
where = {"date": facts()["date"][:10], "cpu": facts()["machine"]["cpu"].replace("(R)", "")}
fastest = {name: [round(min(each), 2) for each in found] for name, found in times.items()}
RECORDED.write_text(json.dumps({**where, "steps": STEPS, **fastest}) + "\n")
