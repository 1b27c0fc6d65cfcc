"""Engines of the backend `cuda` on a machine without a GPU: Triton's interpreter in its place."""

from dataclasses import dataclass, replace
from unittest import mock

from scanline.model import backends
from scanline.model.base.device import resolve_device
from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.base.generator import Generator
from scanline.server.engine.worker.process import EngineOptions
from tests.support import small_models

# A step of a few images takes the interpreter half a second.
CONFIG = small_models.config(
    height=1,
    width=3,
    layers=1,
    heads=1,
    components=2,
)


@dataclass(frozen=True)
class InterpretedOptions(EngineOptions):
    """With the backend `cuda`, as on a machine with a card; else as on one that has lost it."""

    def generator(self):
        if self.backend != "cuda":
            return EngineOptions.generator(replace(self, device="cpu"))
        model = load_model(self.directory, resolve_device("auto"))
        with mock.patch.object(backends, "run_self_test"):  # which has a test of its own
            return Generator(model, self.slots, self.threads, self.precision, self.backend)
