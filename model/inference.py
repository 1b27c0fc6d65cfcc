"""The Python API: a loaded model that samples, completes, scores, classifies and streams images as numpy arrays.

It drives the same engine loop as the server, so the same seed gives the same bytes. Arrays have the image's own shape:
uint8 [H, W] for grey, [H, W, 3] for colour. What is wrong with an argument is a ValueError with the API's sentence.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch
from PIL.Image import Resampling

from scanline.model import zoo
from scanline.model.class_names import label_of_class
from scanline.model.config import ModelConfig
from scanline.model.defaults import Defaults
from scanline.model.device import AUTO, resolve_backend
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.code_file import check_images_a_code
from scanline.model.formats.code_file import read as read_codes
from scanline.model.formats.model_dir import model_name, read_cleaning, read_defaults, read_typicality
from scanline.model.images import pictures, saving
from scanline.model.images.cleaning import Clean, Cleaned, Cleaning, read
from scanline.model.images.contact_sheet import sheet
from scanline.model.images.film import Film, requested
from scanline.model.images.given_images import Picture, Pictures, read_completion, read_images
from scanline.model.inputs import InvalidInput, checked_seed
from scanline.model.likelihood.classification import Classification, check_classes, classify, readings
from scanline.model.likelihood.marginal_likelihood import (
    DEFAULT_REPEATS,
    Estimate,
    check_known,
    check_repeats,
    estimate,
)
from scanline.model.likelihood.typicality import Typicality
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.precision import precision as precision_named
from scanline.model.progress import Progress, reporting
from scanline.model.sampling import coding
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import GenerateRequest, Pixels
from scanline.model.sampling.offline import loaded_engine, paint_request, run

# A forked process has none of torch's threads, and would wait for them for ever.
os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


@dataclass(frozen=True, repr=False)
class Images:
    """Painted images."""

    array: np.ndarray  # uint8 [n, H, W] or [n, H, W, 3]
    bits_per_dim: np.ndarray  # float64 [n], of each whole image under the model at temperature 1
    seed: int
    evidence_bits: np.ndarray | None = None  # float64 [n], of completions: an estimate of -log2 p(known pixels)
    effective_particles: np.ndarray | None = None  # float64 [n], of completions: the smallest on the way
    classes: tuple[str, ...] = ()  # the name of each image's class, n of them; empty where there was none
    guidance: float = 1.0  # this and the next: the call's, or the model's default
    temperature: float = 1.0
    known: np.ndarray | None = None  # bool [n, H, W], of completions: the pixels that were given

    def __repr__(self) -> str:
        size = f"{self.array.shape[2]}x{self.array.shape[1]}"
        return f"<Images: {len(self)} of {size}, seed {self.seed}, {self.bits_per_dim.mean():.3f} bits/dim>"

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int | slice) -> np.ndarray:
        return self.array[index]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.array)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype, copy=copy) if copy is not None else np.asarray(self.array, dtype)

    def _repr_png_(self) -> bytes:
        """Show a contact sheet in a notebook, enlarged as a film is."""
        picture = sheet(self.array)
        scale = Film().scale_of(*picture.size)
        enlarged = picture.resize((scale * picture.width, scale * picture.height), Resampling.NEAREST)
        return pictures.encode(enlarged, "png")

    def save(
        self,
        path: str | Path,
        *,
        film: bool = False,
        frames: int | None = None,
        seconds: float | None = None,
        scale: int | None = None,
    ) -> None:
        """Write a .png or .webp contact sheet, a .npy array, or one PNG per image into a folder; by the name.

        A .gif or .apng, and a .webp or .png where `film` or one of the next is given, is a film of the painting:
        frames, 2 to 256 (32); seconds until the last of them, 0.1 to 60 (3); scale, pixels of the film to one of the
        images, 1 to 16.
        """
        saving.save_images(self.array, Path(path), film=requested(film, frames, seconds, scale), known=self.known)


class _How(TypedDict):
    threads: int | None
    precision: str
    backend: str


@dataclass(frozen=True)
class Step:
    """The images of a stream so far."""

    array: np.ndarray  # uint8 [n, H, W] or [n, H, W, 3]; 0 where nothing is painted yet
    painted: np.ndarray  # int64 [n]: the bytes of each image that are painted, in raster order


class Model:
    """A loaded model. Its methods may be called in any order; calls from several threads need a model each."""

    def __init__(
        self,
        network: Transformer,
        name: str,
        precision: str,
        threads: int | None,
        backend: str,
        typicality: Typicality | None = None,
        cleaning: Cleaning | None = None,
        defaults: Defaults | None = None,
    ) -> None:
        self.network, self.name, self.precision, self.threads = network, name, precision, threads
        self.backend, self.typicality, self.cleaning = backend, typicality, cleaning
        self.defaults = defaults or Defaults()

    def __repr__(self) -> str:
        config, classes = self.config, f", {len(self.class_names)} classes" if self.class_names else ""
        kind = "grey" if config.channels == 1 else "colour"
        runs = f"{self.backend} ({self.precision})"
        return (
            f"<Model {self.name}: {config.size} {kind}{classes}, {self.network.parameter_count:,} parameters, {runs}>"
        )

    @property
    def config(self) -> ModelConfig:
        """Everything the model directory says about the network."""
        return self.network.config

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that `class_name` may name; empty where the model knows none."""
        return self.config.class_names

    def sample(
        self,
        n: int = 1,
        *,
        class_name: str | None = None,
        guidance: float | None = None,
        seed: int | None = None,
        temperature: float | None = None,
        progress: Progress = False,
    ) -> Images:
        """Paint n images from nothing. A seed is drawn, and returned with the images, where none is given. What else is
        not given is as in `defaults`, those of the model.

        class_name: what they show, one of `class_names` or another word for it, in any case, or "any": one of them for
        each image, drawn; "none" leaves the class open. guidance: 1 to 10, of images of a class; above 1, every byte is
        drawn from the logits u + guidance (c - u) of those with the class, c, and without, u (classifier-free
        guidance), which takes two states an image. 1 is the model itself. bits_per_dim stay those under the class.
        progress: True shows a bar, in a terminal or a notebook; a function gets the bytes done and those of all images.
        """
        return self._paint(self._request(n, seed, temperature, class_name, guidance), progress)

    def complete(
        self,
        image: Picture,
        *,
        keep_rows: int | None = None,
        mask: Picture | None = None,
        n: int = 1,
        class_name: str | None = None,
        guidance: float | None = None,
        particles: int | None = None,
        clean: Clean = "off",
        seed: int | None = None,
        temperature: float | None = None,
        progress: Progress = False,
    ) -> Images:
        """Complete an image n times; known pixels come back byte for byte.

        image: a picture file, a picture of Pillow, an array or a tensor; see `score`. Exactly one of: keep_rows, the
        first rows to keep (0 to height - 1); mask, bool [H, W] with True where a pixel is kept, or a picture (black or
        transparent is painted); neither, for a picture with its own alpha.
        particles: 1 to 64 of each completion, so that it fits the known pixels after the hidden ones (sequential Monte
        Carlo); where there are none, one is run. clean: see `classify`; auto removes noise from the known pixels.
        class_name, guidance: see `sample`, by default none; guidance above 1 runs one particle, and is refused with
        more. progress: see `sample`.
        """
        given = read_completion(image, keep_rows, mask, self.config, self.cleaning, clean)
        return self._paint(self._request(n, seed, temperature, class_name, guidance, given, particles), progress)

    def score(
        self,
        images: Pictures,
        *,
        class_name: str | None = None,
        per_pixel: bool = False,
        progress: Progress = False,
    ) -> np.ndarray:
        """Return bits per dimension of one or many images: float64 [n].

        images: picture files, pictures of Pillow, arrays or torch tensors, or a list of them. Arrays and tensors have
        the model's shape, [H, W] or [H, W, 3], channels last or first or all flat, and n before it or not; values are
        whole numbers from 0 to 255, or floats from 0 to 1 that are such numbers divided by 255. progress: see `sample`.
        class_name: of all images; see `sample`. per_pixel: instead, the bits of every byte, float64 [n, H, W] or
        [n, H, W, 3].
        """
        given = read_images(images, self.config)
        labels = [label_of_class(self.config, class_name)] * len(given)
        with self._generator() as generator, reporting(progress, "scoring", given.size) as report:
            bits = generator.score(given.reshape(len(given), -1), labels, progress=report if progress else None)
        return bits.reshape(given.shape) if per_pixel else bits.mean(axis=1)

    def score_known(
        self,
        image: Picture,
        *,
        keep_rows: int | None = None,
        mask: Picture | None = None,
        class_name: str | None = None,
        particles: int | None = None,
        repeats: int = DEFAULT_REPEATS,
        clean: Clean = "off",
        seed: int | None = None,
        progress: Progress = False,
    ) -> Estimate:
        """Estimate -log2 p(known pixels), whatever the hidden ones show, from `repeats` completions (2 to 256).

        The other arguments are those of `complete`.
        """
        check_repeats(repeats)
        given = read_completion(image, keep_rows, mask, self.config, self.cleaning, clean)
        known_bytes = int(given[1].sum())
        check_known(known_bytes, "mask" if keep_rows is None else "keep_rows")
        completed = self._paint(self._request(repeats, seed, 1.0, class_name, 1.0, given, particles), progress)
        assert completed.evidence_bits is not None
        return estimate(completed.evidence_bits, known_bytes)

    def tail_probabilities(
        self,
        images: Pictures,
        *,
        class_name: str | None = None,
        clean: Clean = "off",
        progress: Progress = False,
    ) -> np.ndarray | None:
        """Return how unusual images are for the model, one or many: a bound on the probability, float64 [n], that a
        test image's bits lie as far outside; below 0.01 an image is not typical. None where `scanline evaluate --save`
        has not been run. images: see `score`; class_name and progress: see `sample`; clean: see `classify`."""
        if self.typicality is None:
            return None
        cleaned = self._cleaned(images, clean)
        whole = cleaned.images.reshape(-1, *self.config.image_shape)
        bits = self.score(whole, class_name=class_name, progress=progress) * self.config.bytes
        return self.typicality.tail_probabilities(bits, cleaned.images, cleaned.noisy)

    def classify(self, images: Pictures, *, clean: Clean = "auto", progress: Progress = False) -> Classification:
        """Return the bits of images, one or many, under every class of the model, the posterior with every class
        equally likely before, the most probable class of each image, and how unusual it is. A model of mirrored images
        also reads the mirror images: see `Classification`.

        images: see `score`; progress: see `sample`. clean: auto removes the noise of codecs and scanners, for models of
        drawings, and compares what is left of a noisy image to within a tolerance; off reads images as they are.
        """
        check_classes(self.config)
        cleaned = self._cleaned(images, clean)
        total = cleaned.images.size * readings(self.config)
        with self._generator() as generator, reporting(progress, "classifying", total) as report:
            given = cleaned.images, self.typicality, cleaned.noisy, cleaned.tolerances
            return classify(generator, *given, report if progress else None)

    def compress(
        self,
        images: Pictures,
        *,
        class_name: str | Sequence[str | None] | None = None,
        images_a_code: int | None = None,
        progress: Progress = False,
    ) -> bytes:
        """Return a file of lossless codes of images, one or many, at the bits that `score` gives them (docs/codec.md).

        images: see `score`. class_name: of all images, or a list with that of each, None where it is not known; an
        image is encoded under its class where that is shorter. images_a_code: how many follow each other in a code, by
        default as many as make it about 8 KB; 1 is for access to each by itself. progress: see `sample`.
        """
        given = read_images(images, self.config)
        rows = given.reshape(len(given), -1)
        names = [class_name] * len(rows) if class_name is None or isinstance(class_name, str) else list(class_name)
        if len(names) != len(rows):
            reason = f"class_name names {len(names)} classes for {len(rows)} images; give one, or one for each."
            raise InvalidInput(reason, "class_name")
        check_images_a_code(images_a_code)
        labels = [label_of_class(self.config, name) for name in names]
        total = given.size * (2 if any(labels) else 1)
        with reporting(progress, "encoding", total) as report:
            file = coding.compress(self.network, rows, labels, images_a_code, **self._how(), progress=report)
        return file.to_bytes()

    def decompress(self, data: bytes, *, images: Iterable[int] | None = None, progress: Progress = False) -> np.ndarray:
        """Return the images, uint8 [n, H, W] or [n, H, W, 3], of a file that this model made at the same precision, on
        any processor (docs/codec.md). images: which ones, from 0; all by default. progress: see `sample`.

        ValueError where the file is damaged or of another model, or an image is not what was encoded.
        """
        file = read_codes(bytes(data), "data")
        wanted = None if images is None else file.checked_images(images)
        count = file.count if wanted is None else len(file.decoded(wanted))
        with reporting(progress, "decoding", count * file.image_bytes) as report:
            found = coding.decompress(self.network, file, wanted, "data", **self._how(), progress=report)
        return found.reshape(-1, *self.config.image_shape)

    def stream(
        self,
        n: int = 1,
        *,
        class_name: str | None = None,
        guidance: float | None = None,
        seed: int | None = None,
        temperature: float | None = None,
        image: Picture | None = None,
        keep_rows: int | None = None,
        mask: Picture | None = None,
        particles: int | None = None,
        clean: Clean = "off",
    ) -> Iterator[Step]:
        """Paint n images, or n completions of `image`; return the pixels as they are painted, about 40 times a second.

        The last step holds what `sample` or `complete` returns for the seed. A byte of a completion is returned once
        all its particles agree on it.
        """
        known = keep_rows, mask, self.config, self.cleaning, clean
        given = None if image is None else read_completion(image, *known)
        if given is None and particles is not None:
            raise InvalidInput("particles are for completions; give an image, or leave particles out.", "particles")
        request = self._request(n, seed, temperature, class_name, guidance, given, particles, stream=True)
        array, painted = np.zeros((n, self.config.bytes), np.uint8), np.zeros(n, np.int64)
        with loaded_engine(
            self.network, request.slots, threads=self.threads, precision=self.precision, backend=self.backend
        ) as engine:
            for events in run(engine, request):
                pixels = [event for event in events if isinstance(event, Pixels)]
                for index, first, data in (frame for event in pixels for frame in event.painted):
                    array[index, first : first + len(data)] = np.frombuffer(data, np.uint8)
                    painted[index] = first + len(data)
                if pixels:
                    yield Step(array.reshape(n, *self.config.image_shape).copy(), painted.copy())

    def _cleaned(self, images: Pictures, clean: Clean) -> Cleaned:
        """Return checked images as a call with this `clean` has them read."""
        given = read_images(images, self.config)
        return read(given.reshape(len(given), -1), self.config, self.cleaning, clean)

    def _how(self) -> "_How":
        """Return how the network is run."""
        return {"threads": self.threads, "precision": self.precision, "backend": self.backend}

    def _generator(self) -> closing[Generator]:
        """Return a generator that reads images, to be closed at the end of a with statement."""
        return closing(Generator(self.network, 1, self.threads, self.precision, self.backend))

    def _request(
        self,
        n: int,
        seed: int | None,
        temperature: float | None,
        class_name: str | None,
        guidance: float | None,
        known_and_mask: tuple[np.ndarray, np.ndarray] | None = None,
        particles: int | None = None,
        *,
        stream: bool = False,
    ) -> GenerateRequest:
        if not isinstance(n, Integral) or n < 1:
            raise InvalidInput(f"n must be a whole number of at least 1, not {n!r}.", "n")
        known, masks = ((part.tobytes(),) for part in known_and_mask) if known_and_mask else ((), ())
        given = (self.config, class_name, guidance, temperature)
        completed = known_and_mask is not None
        choice = self.defaults.to_complete(*given, particles) if completed else self.defaults.to_paint(*given)
        return GenerateRequest(
            id=0,
            n=int(n),
            seed=checked_seed(seed),
            known=known,
            masks=masks,
            stream=stream,
            **choice.to_dict(),
        )

    def _paint(self, request: GenerateRequest, progress: Progress = False) -> Images:
        with reporting(progress, "painting", request.n * self.config.bytes) as report:
            painted = paint_request(
                self.network,
                request,
                threads=self.threads,
                precision=self.precision,
                backend=self.backend,
                progress=report,
            )
        images = painted.images.reshape(-1, *self.config.image_shape)
        labels = map(request.label_of, request.indices)
        classes = tuple(self.class_names[label - 1] for label in labels if label)
        weighed = painted.evidence_bits, painted.effective_particles
        used, known = (request.guidance, request.temperature), request.known_pixels(self.config)
        return Images(images, painted.bits_per_dim, request.seed, *weighed, classes, *used, known)


def load(
    name: str | Path | None = None,
    *,
    device: str = "auto",
    precision: str = DEFAULT,
    threads: int | None = None,
    backend: str = AUTO,
) -> Model:
    """See `scanline.load`."""
    precision_named(precision)
    directory = zoo.find(str(name or zoo.DEFAULT))
    on, backends = resolve_backend(device, backend)
    generator = Generator(load_model(directory, on), 1, threads, precision, backends)
    generator.close()  # the precision is possible here, and its backend works
    network, name = generator.model, model_name(directory.resolve())
    more = read_typicality(directory), read_cleaning(directory), read_defaults(directory, network.config)
    return Model(network, name, precision, threads, generator.backend_name, *more)
