"""The Python API: a loaded model that samples, completes, scores, classifies
and streams images as numpy arrays.

It drives the same engine loop as the server, so the same seed gives the same bytes. Arrays have the
image's own shape: uint8 [H, W] for grey, [H, W, 3] for colour. What is wrong with an argument is a
ValueError with the API's sentence.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import torch
from PIL.Image import Resampling

from scanline.kernels.cpu.bindings import MAX_THREADS
from scanline.model import zoo
from scanline.model.base.class_names import ClassNames, as_class
from scanline.model.base.config import ModelConfig
from scanline.model.base.device import AUTO, resolve_backend
from scanline.model.base.inputs import InvalidInput, switch, whole_number
from scanline.model.base.precision import DEFAULT
from scanline.model.base.precision import precision as precision_named
from scanline.model.base.progress import Progress, reporting
from scanline.model.base.sampling_options import (
    CompletionOptions,
    Defaults,
    DrawingParams,
    EstimateOptions,
    GenerationOptions,
    PaintOptions,
    spelled_out,
)
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.code_file import CodeFile
from scanline.model.formats.code_file import read as read_codes
from scanline.model.formats.model_dir import ModelInfo, model_name, read_info
from scanline.model.images import pictures, saving
from scanline.model.images.cleaning import Clean, Cleaned, read
from scanline.model.images.contact_sheet import sheet
from scanline.model.images.film import Film
from scanline.model.images.given_images import Picture, Pictures, read_completion, read_images
from scanline.model.images.recipe import Recipe
from scanline.model.likelihood.classification import Classification, check_classes
from scanline.model.likelihood.marginal_likelihood import DEFAULT_REPEATS, Estimate
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.generator import Generator
from scanline.model.tasks import classify, decode, encode, estimate, paint, score
from scanline.model.tasks.classify import ClassifyValues
from scanline.model.tasks.decode import DecodeValues
from scanline.model.tasks.encode import EncodeValues
from scanline.model.tasks.estimate import EstimateValues
from scanline.model.tasks.offline import RunOptions, after, engine_for, progressing, run_tasks
from scanline.model.tasks.paint import CompleteValues, PaintedImages, PaintTask, PaintValues
from scanline.model.tasks.recipe import recipe_of
from scanline.model.tasks.score import Scores, ScoreValues
from scanline.model.tasks.task import Task

DECODED_AT_ONCE = 1 << 26  # bytes of images, which their number bounds

# A forked process has none of torch's threads, and would wait for them for ever.
os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


@dataclass(frozen=True, repr=False)
class Images(DrawingParams):
    """Painted images, with how they were drawn: by the call's values, or the model's defaults."""

    array: np.ndarray  # uint8 [n, H, W] or [n, H, W, 3]
    bits_per_dim: np.ndarray  # float64 [n], of each whole image under the model at temperature 1
    seed: int
    # float64 [n], of completions: an estimate of -log2 p(known pixels)
    evidence_bits: np.ndarray | None = None
    # float64 [n], of completions: the smallest on the way
    effective_particles: np.ndarray | None = None
    # the name of each image's class, None of none; empty where all have none
    classes: tuple[str | None, ...] = ()
    known: np.ndarray | None = None  # bool [n, H, W], of completions: the pixels that were given
    # of a sheet: one row of images of a list of classes; None: nearly square
    columns: int | None = None
    # the request that paints them again, which files of them carry (docs/api.md)
    recipe: Recipe | None = None

    @classmethod
    def of(cls, painted: PaintedImages, config: ModelConfig, recipe: Recipe | None) -> "Images":
        """Return the images of a task."""
        return cls(
            painted.images.reshape(-1, *config.image_shape),
            painted.bits_per_dim,
            painted.seed,
            painted.evidence_bits,
            painted.effective_particles,
            painted.class_names(config),
            painted.known,
            None if painted.sampling.listed is None else len(painted.images),
            recipe,
            **painted.sampling.used,
        )

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
        if copy is None:
            return np.asarray(self.array, dtype)
        return np.array(self.array, dtype, copy=copy)

    def _repr_png_(self) -> bytes:
        """Show a contact sheet in a notebook, enlarged as a film is."""
        picture = sheet(self.array, self.columns)
        scale = Film().scale_of(*picture.size)
        size = (scale * picture.width, scale * picture.height)
        return pictures.encode(picture.resize(size, Resampling.NEAREST), "png")

    def save(
        self,
        path: str | Path,
        *,
        film: bool = False,
        frames: int | None = None,
        seconds: float | None = None,
        scale: int | None = None,
    ) -> None:
        """Write a .png or .webp contact sheet, a .npy array, or one PNG per image into a
        folder; by the name. The classes of images, where they are known, are in a table beside
        an array, or in the folder: classes.csv. Pictures carry their recipe, which `scanline recipe`
        prints.

        A .gif or .apng, and a .webp or .png where `film` or one of the next two is given, is a film
        of the painting: frames, 2 to 256 (32); seconds until the last of them, 0.1 to 60 (3).
        scale, 1 to 16: pixels of the film or the sheet to one of the images; a sheet then has gaps.
        """
        shown_film = saving.film_of(Path(path), film, frames, seconds, scale)
        saving.save_images(
            self.array,
            Path(path),
            self.columns,
            film=shown_film,
            known=self.known,
            scale=int(scale or 1),
            classes=self.classes,
            recipe=self.recipe,
        )


@dataclass(frozen=True)
class Step:
    """The images of a stream so far."""

    array: np.ndarray  # uint8 [n, H, W] or [n, H, W, 3]; 0 where nothing is painted yet
    painted: np.ndarray  # int64 [n]: the bytes of each image that are painted, in raster order


class Model:
    """A loaded model. Its methods may be called in any order; calls from several threads need a
    model each."""

    def __init__(
        self,
        network: Transformer,
        name: str,
        precision: str,
        threads: int | None,
        backend: str,
        info: ModelInfo | None = None,
    ) -> None:
        self.network = network
        self.name = name
        self.precision = precision
        self.threads = threads
        self.backend = backend
        self.info = info or ModelInfo(network.config)

    def __repr__(self) -> str:
        kind = "grey" if self.config.channels == 1 else "colour"
        classes = f", {len(self.class_names)} classes" if self.class_names else ""
        parameters = f"{self.network.parameter_count:,} parameters"
        backend = f"{self.backend} ({self.precision})"
        return f"<Model {self.name}: {self.config.size} {kind}{classes}, {parameters}, {backend}>"

    @property
    def config(self) -> ModelConfig:
        """Everything the model directory says about the network."""
        return self.network.config

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that `class_name` may name; empty where the model knows none."""
        return self.config.class_names

    @property
    def defaults(self) -> Defaults:
        """What a call uses where it does not say."""
        return self.info.defaults

    @property
    def coding(self) -> str:
        """The digest of what makes and reads codes: the model and its arithmetic. Equal ones read
        each other's."""
        return self.codings[0]

    @cached_property
    def codings(self) -> tuple[str, ...]:
        """That digest, and those of files that earlier versions made with this model."""
        with closing(self._generator()) as generator:
            return generator.codings

    @cached_property
    def digest(self) -> str:
        """The digest of what paints: models with an equal one paint the same bytes for a seed."""
        with closing(self._generator()) as generator:
            return generator.digest

    def recipe_of(self, tasks: Sequence[PaintTask]) -> Recipe | None:
        """Return the recipe of the images of tasks that differ in class or picture only, which
        files of them carry."""
        requests = [task.request for task in tasks]
        return recipe_of(requests, self.config, self.name, self.digest)

    @spelled_out
    def sample(
        self,
        n: int | None = None,
        *,
        class_name: ClassNames | None = None,
        seed: int | None = None,
        progress: Progress = False,
        **sampling: Unpack[GenerationOptions],
    ) -> Images:
        """Paint n images from nothing, by default one. A seed is drawn, and returned with the
        images, where none is given. What else is not given is as in `defaults`, those of the model.

        class_name: what they show, one of `class_names` or another word for it, in any case, or "any": one of them for
        each image, drawn; "none" leaves the class open. A list paints one image of each of its classes, "none" among
        them; its image i is image i of a call with that class alone and the same seed. guidance: 1 to 10, of images of
        a class; above 1, every byte is drawn from the logits u + guidance (c - u) of those with the class, c, and
        without, u (classifier-free guidance), which takes two states an image. 1 is the model itself. bits_per_dim stay
        those under the class. best_of: 1 to 8 candidates of each image of a class, of which the class head chooses the
        one that it likes best for the class; the first is the image that is painted without others.
        progress: True shows a bar, in a terminal or a notebook; a function gets the bytes done and those of all images.
        """
        values = PaintValues(n=n, seed=seed, class_name=class_name, sampling=sampling)
        return self._painted(values, None, progress)

    @spelled_out
    def complete(
        self,
        image: Picture,
        *,
        keep_rows: int | None = None,
        mask: Picture | None = None,
        n: int = 1,
        class_name: ClassNames | None = None,
        clean: Clean = "off",
        seed: int | None = None,
        progress: Progress = False,
        **sampling: Unpack[CompletionOptions],
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
        picture = read_completion(image, keep_rows, mask, self.config, self.info.cleaning, clean)
        values = CompleteValues(n=n, seed=seed, class_name=class_name, sampling=sampling)
        return self._painted(values, picture, progress)

    def score(
        self,
        images: Pictures,
        *,
        class_name: ClassNames | None = None,
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
        scores = self.scores(images, class_name=class_name, progress=progress)
        bits = np.stack(scores.bits)
        if per_pixel:
            return bits.reshape(-1, *self.config.image_shape)
        return bits.mean(axis=1)

    def scores(
        self,
        images: Pictures,
        *,
        clean: Clean = "off",
        class_name: ClassNames | None = None,
        progress: Progress = False,
    ) -> Scores:
        """Return all that a likelihood says of images, one or many; see `score` and
        `tail_probabilities`."""
        cleaned = self._cleaned(images, clean)
        task = score.plan(self.info, ScoreValues(len(cleaned.images), class_name))
        task.fill([cleaned])
        self.run([task], "scoring", progress)
        return task.result()

    def score_known(
        self,
        image: Picture,
        *,
        keep_rows: int | None = None,
        mask: Picture | None = None,
        class_name: ClassNames | None = None,
        particles: int | None = None,
        repeats: int = DEFAULT_REPEATS,
        clean: Clean = "off",
        seed: int | None = None,
        progress: Progress = False,
    ) -> Estimate:
        """Estimate -log2 p(known pixels), whatever the hidden ones show,
        from `repeats` completions (2 to 256).

        The other arguments are those of `complete`.
        """
        known_by = "mask" if keep_rows is None else "keep_rows"
        sampling: EstimateOptions = {"particles": particles}
        values = EstimateValues(1, repeats, seed, class_name, sampling, known_by)
        task = estimate.plan(self.info, values)
        pixels, kept = read_completion(
            image, keep_rows, mask, self.config, self.info.cleaning, clean
        )
        task.fill([pixels.tobytes()], [kept.tobytes()])
        self.run([task], "painting", progress)
        return task.result().estimates[0]

    def tail_probabilities(
        self,
        images: Pictures,
        *,
        class_name: ClassNames | None = None,
        clean: Clean = "off",
        progress: Progress = False,
    ) -> np.ndarray | None:
        """Return how unusual images are for the model, one or many: a bound on the probability,
        float64 [n], that a test image's bits lie as far outside; below 0.01 an image is not
        typical. None where `scanline evaluate --save` has not been run. images: see `score`;
        class_name and progress: see `sample`; clean: see `classify`."""
        if self.info.typicality is None:
            return None
        scores = self.scores(images, clean=clean, class_name=class_name, progress=progress)
        return scores.tail_probabilities

    def classify(
        self,
        images: Pictures,
        *,
        by_bits: bool = False,
        clean: Clean = "auto",
        progress: Progress = False,
    ) -> Classification:
        """Return the posterior of images, one or many, with every class equally likely before, the
        most probable class of each, and how unusual it is: by the model's class head, or where it
        has none by the bits under every class, of the mirror image too where the model was trained
        on mirrored ones. See `Classification`.

        images: see `score`; progress: see `sample`. by_bits: True reads by bits beside the head,
        too, which takes ten or twenty times as long for ten classes. clean: auto makes drawings
        of pictures, for models of drawings: without the noise of codecs and scanners or paper, light
        on dark or dark on light as the model's are, centred where these are. off reads images as
        they are.
        """
        by_bits = switch(by_bits, "by_bits")
        check_classes(self.config)
        cleaned = self._cleaned(images, clean)
        task = classify.plan(self.info, ClassifyValues(len(cleaned.images), by_bits))
        task.fill([cleaned])
        self.run([task], "classifying", progress)
        return task.result()

    def compress(
        self,
        images: Pictures,
        *,
        class_name: ClassNames | None = None,
        images_a_code: int | None = None,
        progress: Progress = False,
    ) -> bytes:
        """Return a file of lossless codes of images, one or many, at the bits that
        `score` gives them (docs/codec.md).

        images: see `score`. class_name: of all images, or a list with that of each, None where it
        is not known; an image is encoded under its class where that is shorter. images_a_code: how
        many follow each other in a code, by default as many as make it about 8 KB; 1 is for access
        to each by itself. progress: see `sample`.
        """
        cleaned = self._cleaned(images, "off")
        count = len(cleaned.images)
        names = as_class(class_name)
        if not isinstance(names, list):
            names = [names] * count
        if len(names) != count:
            reason = f"class_name names {len(names)} classes for {count} images; give one, or one for each."
            raise InvalidInput(reason, "class_name")
        values = EncodeValues(names, self.coding, self.precision, images_a_code)
        task = encode.plan(self.info, values)
        task.fill([cleaned])
        self.run([task], "encoding", progress)
        file = task.result().file
        assert file is not None
        return file.to_bytes()

    def decompress(
        self, data: bytes, *, images: Iterable[int] | None = None, progress: Progress = False
    ) -> np.ndarray:
        """Return the images, uint8 [n, H, W] or [n, H, W, 3], of a file that this model made
        at the same precision, on any processor (docs/codec.md). images: which ones, from 0;
        all by default. progress: see `sample`.

        ValueError where the file is damaged or of another model,
        or an image is not what was encoded.
        """
        try:
            file = read_codes(memoryview(data).tobytes(), "data")
        except TypeError:
            raise InvalidInput(f"data must be bytes, not {type(data).__name__}.", "data") from None
        file.check_model(self.codings, self.precision, self.config, "data")
        wanted = None if images is None else file.checked_images(images)
        decoded, _ = self.decode(file, wanted, "data", progress)
        return decoded.reshape(-1, *self.config.image_shape)

    @spelled_out
    def stream(
        self,
        n: int | None = None,
        *,
        class_name: ClassNames | None = None,
        seed: int | None = None,
        image: Picture | None = None,
        keep_rows: int | None = None,
        mask: Picture | None = None,
        clean: Clean = "off",
        **sampling: Unpack[PaintOptions],
    ) -> Iterator[Step]:
        """Paint n images, or n completions of `image`; return the pixels as they
        are painted, about 40 times a second.

        The last step holds what `sample` or `complete` returns for the seed. A byte is returned
        once all particles of a completion, or all candidates of an image, agree on it.
        """
        kind: type[PaintValues] = PaintValues
        picture = None
        if image is not None:
            kind = CompleteValues
            picture = read_completion(
                image, keep_rows, mask, self.config, self.info.cleaning, clean
            )
        unused: Literal["best_of", "particles"] = "particles" if image is None else "best_of"
        if sampling.pop(unused, None) is not None:
            of = "completions" if image is None else "images painted from nothing"
            raise InvalidInput(f"{unused} is for {of}; leave it out.", unused)
        values = kind(n=n, seed=seed, class_name=class_name, sampling=sampling)
        task = self._planned(values, picture)
        task.request = replace(task.request, stream=True)
        with engine_for(self.network, [task], **self._options) as engine:
            for _ in progressing(engine, [task]):
                if task.take():
                    images = task.images.reshape(-1, *self.config.image_shape)
                    yield Step(images.copy(), task.painted.copy())

    def _cleaned(self, images: Pictures, clean: Clean) -> Cleaned:
        """Return checked images as a call with this `clean` has them read."""
        array = read_images(images, self.config, self.info.photos(clean))
        return read(array.reshape(len(array), -1), self.config, self.info.cleaning, clean)

    def _planned(
        self, values: PaintValues, picture: tuple[np.ndarray, np.ndarray] | None
    ) -> PaintTask:
        """Return the task that paints, or completes a picture of which a mask [N] is kept."""
        task = paint.plan(self.info, values)
        if picture is not None:
            pixels, kept = picture
            task.fill([pixels.tobytes()], [kept.tobytes()])
        return task

    def _painted(
        self,
        values: PaintValues,
        picture: tuple[np.ndarray, np.ndarray] | None,
        progress: Progress,
    ) -> Images:
        task = self._planned(values, picture)
        self.run([task], "painting", progress)
        return Images.of(task.result(), self.config, self.recipe_of([task]))

    def _generator(self) -> Generator:
        return Generator(self.network, 1, self.threads, self.precision, self.backend)

    def decode(
        self, file: CodeFile, wanted: Sequence[int] | None, param: str, progress: Progress = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return images [n, N] uint8 of a file, the `wanted` ones in their order or all, some at a
        time, and the label of each, [n] int64, 0 where its code says none."""
        numbers = file.decoded(range(file.count) if wanted is None else wanted)
        try:
            images = np.empty((len(numbers), self.config.bytes), np.uint8)
        except MemoryError:
            reason = f"{param} holds more images than the memory has room for: decode some of them."
            raise InvalidInput(reason, param) from None
        labels = np.zeros(len(numbers), np.int64)
        # Whole codes, each of `block` images.
        at_once = max(DECODED_AT_ONCE // (self.config.bytes * file.block), 1) * file.block
        with reporting(progress, "decoding", images.size) as report:
            for first in range(0, len(numbers), at_once):
                part = slice(first, first + at_once)
                values = DecodeValues(
                    [file], numbers[part], self.codings, self.precision, param=param
                )
                task = decode.plan(self.info, values)
                progress_of_part = after(images[:first].size, report)
                run_tasks(self.network, [task], **self._options, progress=progress_of_part)
                painted = task.result()
                images[part] = painted.images
                labels[part] = painted.labels
        if wanted is None:
            return images, labels
        # A code is decoded as a whole, and its images stand in their order.
        row_of = {number: row for row, number in enumerate(numbers)}
        rows = [row_of[index] for index in wanted]
        return images[rows], labels[rows]

    def run(self, tasks: Sequence[Task], what: str, progress: Progress = False) -> None:
        """Run tasks at once until all have ended; what: they do, for the bar."""
        bytes_of_all = sum(task.count for task in tasks) * self.config.bytes
        with reporting(progress, what, bytes_of_all) as report:
            run_tasks(self.network, tasks, **self._options, progress=report)

    @property
    def _options(self) -> RunOptions:
        return {"threads": self.threads, "precision": self.precision, "backend": self.backend}


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
    threads = None if threads is None else whole_number(threads, 1, MAX_THREADS, "threads")
    directory = zoo.find(str(name or zoo.DEFAULT))
    chosen_device, backends = resolve_backend(device, backend)
    generator = Generator(load_model(directory, chosen_device), 1, threads, precision, backends)
    generator.close()  # the precision is possible here, and its backend works
    name = model_name(directory.resolve())
    info = replace(read_info(directory), has_class_head=generator.model.class_head is not None)
    return Model(generator.model, name, precision, threads, generator.backend_name, info)
