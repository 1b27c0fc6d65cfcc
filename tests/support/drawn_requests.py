"""Draws requests of every kind that there is, each as the description that an engine gets.

The two tests of mixed requests carry them out and compare: engine/mixed_requests.py in an engine,
which also takes parts of them, server/mixed_requests.py over HTTP, which also spells them in many
ways. A new kind of request is drawn here.
"""

from dataclasses import replace

import numpy as np

from scanline.model.base.sampling_options import MAX_BEST_OF, DrawnLabel
from scanline.model.sampling.base.messages import (
    GenerateRequest,
    ScoreRequest,
    StepRange,
)

PICTURES = 6
SEEDS = (0, 1, 7, 2**63 - 1)
TEMPERATURES = (0.0, 0.5, 1.0, 1.0, 1.0, 2.0)
GUIDANCES = (1.5, 2.0, 4.0, 10.0)
PARTICLES = (1, 2, 5, 16)
TOLERANCES = (0, 1, 20)


class Drawing:
    """Draws requests to one model with so many slots; `rng` decides all of them.

    classifies: whether images can be classified.
    """

    def __init__(self, rng, config, slots, classifies):
        self.rng = rng
        self.config = config
        self.slots = slots
        self.readings = {"score": 4, "code": 5, "inspect": 1, "classify": 3 * classifies}
        # few, so that requests have beginnings in common
        self.pictures = [self._picture() for _ in range(PICTURES)]

    def request(self):
        """Return a request of any kind, without its id and client."""
        kinds = [self.painting, self.completion, self.reading]
        return self.rng.choice(kinds)()

    def painting(self):
        """Images from nothing: of no class or one, of drawn classes, or of a list."""
        most = min(self.slots, 12)
        n = self.rng.choice([1, 1, 2, 3, 7, most + 3])
        match self.rng.randrange(4):
            case 0:
                label = DrawnLabel(len(self.config.classes))
            case 1:
                label = self._labels(n)
            case _:
                label = self._label()
        request = self._painted(n, label=label)
        # candidates of each image, for the class head
        most = min(self.slots // request.largest_kind.slots, MAX_BEST_OF)
        if self.readings["classify"] and any(map(request.label_of, range(n))) and most:
            return replace(request, best_of=self.rng.choice([1, self.rng.randint(1, most)]))
        return request

    def completion(self):
        """Completions of pictures, each with a mask of its own or all with the same."""
        rng = self.rng
        count = rng.choice([1, 1, 2, 3, 4])
        known = self._some_pictures(count)
        masks = (self._mask(),) * count
        if rng.random() < 0.5:
            masks = tuple(self._mask() for _ in known)
        n = count * rng.choice([1, 1, 2, 3])
        request = self._painted(n, label=self._label(), known=known, masks=masks)
        if request.guidance != 1:
            return request
        particles = rng.choice(PARTICLES)
        return replace(request, particles=min(self.slots, particles))

    def reading(self):
        """Pictures to score, to code or to classify, or one to inspect."""
        rng = self.rng
        count = rng.randrange(1, 6)
        images = self._some_pictures(count)
        labels = rng.choice([(), self._labels(count)])
        request = ScoreRequest(0, images, labels)
        (kind,) = rng.choices([*self.readings], [*self.readings.values()])
        if kind == "inspect":
            inspected = self._step_range()
            return replace(request, images=images[:1], labels=labels[:1], inspected=inspected)
        if kind == "code":
            return replace(request, coded=True)
        if self.config.predicts == "categorical" and rng.random() < 0.5:
            tolerances = tuple(rng.choice(TOLERANCES) for _ in images)
            request = replace(request, tolerances=tolerances)
        return replace(request, classified=kind == "classify")

    def _painted(self, n, **fields):
        rng = self.rng
        seed = rng.choice([*SEEDS, rng.randrange(2**63)])
        temperature = rng.choice([*TEMPERATURES, rng.uniform(0.1, 2.0)])
        request = GenerateRequest(0, n, seed, temperature=temperature, **fields)
        has_class = any(map(request.label_of, range(n)))
        if has_class and self.slots > 1 and rng.random() < 0.35:
            guidance = rng.choice([*GUIDANCES, rng.uniform(1.01, 10.0)])
            request = replace(request, guidance=guidance)
        if rng.random() < 0.3:
            provisional = rng.random() < 0.5
            request = replace(request, stream=True, provisional=provisional)
        if rng.random() < 0.1:
            layer = rng.randrange(self.config.layers)
            head = rng.randrange(self.config.heads)
            request = replace(request, snapshot=(layer, head))
        return request

    def _label(self):
        return self.rng.randrange(len(self.config.classes) + 1)

    def _labels(self, count):
        return tuple(self._label() for _ in range(count))

    def _some_pictures(self, count):
        return tuple(self.rng.choices(self.pictures, k=count))

    def _step_range(self):
        config = self.config
        ends = range(config.first, config.bytes + 1, config.step_bytes)
        first, stop = sorted(self.rng.sample(ends, 2))
        layer = self.rng.randrange(config.layers)
        head = self.rng.randrange(config.heads)
        return StepRange(layer, head, first, stop)

    def _picture(self):
        """One value, two, noise, or a bright rectangle on black."""
        shape = self.config.image_shape
        noise = self._noise()
        picture = np.zeros(shape, np.uint8)
        match self.rng.randrange(5):
            case 0:
                picture[:] = self.rng.choice([0, 255])
            case 1:
                picture[:] = noise.integers(0, 2, shape) * 255
            case 2:
                picture[:] = noise.integers(0, 256, shape)
            case _:
                bottom = noise.integers(2, shape[0])
                right = noise.integers(2, shape[1])
                picture[1:bottom, 1:right] = 254
        return picture.tobytes()

    def _mask(self):
        """Which bytes are known, not all: whole rows, a beginning, an end, most, or any."""
        width = self.config.width
        known = np.zeros(self.config.height * width, np.bool_)
        pixel = self.rng.randrange(len(known))
        match self.rng.randrange(5):
            case 0:
                known[: pixel // width * width] = True
            case 1:
                known[:pixel] = True
            case 2:
                known[pixel + 1 :] = True
            case 3:
                known[:] = True
                known[pixel :: self.rng.randrange(1, 9)] = False
            case 4:
                known[:] = self._noise().integers(0, 2, len(known))
                known[pixel] = False
        return known.repeat(self.config.channels).tobytes()

    def _noise(self):
        return np.random.default_rng(self.rng.randrange(2**32))
