"""Reads images for a class head, some steps at a time, so that painting goes on meanwhile.

The pieces of an image are always the same and are added in order, each image by itself: logits
have the same bits whatever else is read.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from scanline.model.base.resources import one_torch_thread, threads
from scanline.model.base.state import State
from scanline.model.network.class_head import ClassHead, FeatureShape
from scanline.model.network.transformer import Transformer

Part = TypeVar("Part")
Result = TypeVar("Result")

# that are read at once: some milliseconds of that device
READ_STEPS = {"cpu": 64, "cuda": 1024}


class ClassReading:
    """The reading of one image [1, N] uint8 by the model's class head, which there must be."""

    def __init__(self, model: Transformer, image: Tensor) -> None:
        assert model.class_head is not None
        config = model.config
        self.model = model
        self.head: ClassHead = model.class_head
        self.image = image
        self.state = State.zeros(config, 1, model.device)  # after the bytes that have been read
        self.position = config.first  # the first byte after them
        # what they add to the image's features
        self.features = torch.zeros(1, self.head.shape.count(config), device=model.device)

    def read(self) -> Tensor | None:
        """Read the next steps; return the head's answer [1, K + 1] float32 once there are no
        more."""
        config = self.model.config
        piece = READ_STEPS[self.model.device.type] * config.step_bytes
        start = self.position
        stop = min(start + piece, config.bytes)
        self.features += _features(self.model, self.image, self.head.shape, self.state, start, stop)
        self.position = stop
        if stop < config.bytes:
            return None
        return self.head.answer(self.features)


def class_logits(model: Transformer, images: Tensor) -> Tensor:
    """Return the logits [n, K] of `class_answers`."""
    return class_answers(model, images)[:, :-1]


def class_answers(model: Transformer, images: Tensor) -> Tensor:
    """Return the answers [n, K + 1] float32 of the class head, which there must be, to images [n,
    N] uint8: to each image by itself, since a product of another shape may round differently."""

    def answer_to(image: Tensor) -> Tensor:
        reading = ClassReading(model, image)
        answer = None
        while answer is None:
            answer = reading.read()
        return answer

    return torch.cat(in_threads(images.split(1), answer_to, images.device))


def features(model: Transformer, images: Tensor, shape: FeatureShape) -> Tensor:
    """Return the features [B, F] float32 of images [B, N] uint8, read without a class."""
    return _features(model, images, shape, None, model.config.first, model.config.bytes)


def _features(
    model: Transformer,
    images: Tensor,
    shape: FeatureShape,
    state: State | None,
    start: int,
    stop: int,
) -> Tensor:
    """Return what bytes start..stop-1 add to the features of images; from a state, which is moved
    IN PLACE."""
    outputs = model.layer_outputs(images, start, stop, state, max(shape.layers))
    return shape.averages(model.config, outputs, start)


def in_threads(
    parts: Sequence[Part], compute: Callable[[Part], Result], device: torch.device
) -> list[Result]:
    """Return what is computed of each part; on a CPU each in one of several threads."""

    def of_part(part: Part) -> Result:
        with torch.inference_mode():  # which is a thread's own
            return compute(part)

    if device.type != "cpu":
        return [of_part(part) for part in parts]
    with one_torch_thread():
        if len(parts) == 1:
            return [of_part(parts[0])]
        with ThreadPoolExecutor(min(len(parts), threads())) as pool:
            return [*pool.map(of_part, parts)]
