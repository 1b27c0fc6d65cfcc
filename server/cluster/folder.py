"""`scanline sample --cluster`: a folder of images painted by a running
service's replicas, without its ingress.

Each image is written as soon as it is finished and is not kept in memory. A folder that an
earlier run left incomplete is completed.
"""

import asyncio
import json
import logging
import socket
from array import array
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import ray
from ray import serve
from ray.exceptions import AuthenticationError, RayError

from scanline.model.base.atomic import write_file
from scanline.model.base.class_names import MAX_LISTED, listed_in
from scanline.model.base.config import ModelConfig
from scanline.model.base.named_files import read_file
from scanline.model.base.sampling_options import MAX_BEST_OF, GenerationOptions
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.pictures import encode_image
from scanline.model.images.recipe import Recipe as FileRecipe
from scanline.model.images.recipe import of_image
from scanline.model.images.saving import file_name, write_classes
from scanline.model.sampling.base.messages import Event, Finished, GenerateRequest
from scanline.model.tasks import paint
from scanline.model.tasks.paint import PaintValues
from scanline.model.tasks.recipe import recipe_of
from scanline.model.tasks.task import Task
from scanline.server.cluster.application import INGRESS
from scanline.server.engine.job import EngineFailedError, Job
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.remote.over_ray import ReplicaPool
from scanline.server.engine.worker.process import EngineOptions

RECIPE = "recipe.json"
CONNECT_SECONDS = 5.0
# called with the number of images in the folder, and of those it will have
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Recipe:
    """What determines all images of a folder; None: the model's default."""

    model: str
    # None, until the model is known: an image of each class of a list, else as many as by default
    n: int | None
    seed: int
    class_name: str | None = None  # a list, where its characters are classes
    sampling: GenerationOptions = field(default_factory=GenerationOptions)  # those that were given
    # of the model, once a run has painted; no part of what a user asks for
    digest: str | None = None

    def __str__(self) -> str:
        shows = "" if self.class_name is None else f", class {self.class_name}"
        drawn = "".join(f", {name} {value:g}" for name, value in self.sampling.items())
        images = "" if self.n is None else f", n {self.n}"
        return f"{self.model}{images}, seed {self.seed}{shows}{drawn}"

    def listed(self, config: ModelConfig) -> list[str]:
        """Return the classes that a list has; nothing where the class is none."""
        return [] if self.class_name is None else listed_in(config, self.class_name)


@dataclass(frozen=True)
class PaintedFolder:
    """What a run has painted into a folder."""

    bits_per_dim: list[float]  # of each image


class FolderTask(Task):
    """Images that are written to a folder as they finish, and not kept."""

    request: GenerateRequest

    def __init__(
        self,
        request: GenerateRequest,
        out: Path,
        shape: tuple[int, ...],
        progress: Progress,
        recipe: FileRecipe | None = None,
        names: Sequence[str | None] = (),  # of the labels
    ) -> None:
        self.request = request
        self.count = len(request.indices)
        self.out = out
        self.shape = shape
        self.progress = progress
        self.recipe = recipe
        self.names = names
        self.finished: deque[Finished] = deque()  # that are not written yet
        self.bits_per_dim = array("d")  # of the images that this run painted

    def receive(self, event: Event) -> None:
        """See Task.receive."""
        if isinstance(event, Finished):
            self.finished.append(event)

    def work(self) -> Iterator[None]:
        """Write what has finished; EngineFailedError where it cannot be written."""
        while self.finished:
            try:
                self._write(self.finished.popleft())
            except OSError as error:
                raise EngineFailedError(f"{self.out}: {error.strerror}.") from None
            self.progress(self.request.n - self.count + len(self.bits_per_dim), self.request.n)
            yield

    def result(self) -> PaintedFolder:
        """See Task.result."""
        return PaintedFolder(self.bits_per_dim.tolist())

    def _write(self, event: Finished) -> None:
        image = np.frombuffer(event.image, np.uint8).reshape(self.shape)
        class_name = self.names[self.request.label_of(event.index)] if self.names else None
        recipe = of_image(self.recipe, event.index, class_name)
        path = self.out / file_name(event.index, self.request.n)
        write_file(path, encode_image(image, "png", recipe), durable=False)
        self.bits_per_dim.append(event.bits_per_dim)


def open_folder(out: Path, recipe: Recipe, seed_is_random: bool) -> Recipe:
    """Return the recipe of a new folder, or of an earlier run's, whose seed replaces a random one,
    and whose n one that is not given; ValueError where that one differs."""
    out.mkdir(exist_ok=True)
    path = out / RECIPE
    if path.exists():
        try:
            earlier = Recipe(**json.loads(read_file(path)))
        except (OSError, ValueError, TypeError, RecursionError):
            raise ValueError(
                f"{path} is not a recipe of an earlier run; choose another folder"
            ) from None
        if seed_is_random:
            recipe = replace(recipe, seed=earlier.seed)
        if recipe.n is None:
            recipe = replace(recipe, n=earlier.n)
        if replace(earlier, digest=None) != recipe:
            raise ValueError(
                f"{out} contains images of {earlier}, not of {recipe}; choose another folder"
            )
        return earlier
    if any(out.glob("*.png")):
        raise ValueError(
            f"{out} contains images but no {RECIPE} of an earlier run; choose another folder"
        )
    _write_recipe(out, recipe)
    return recipe


def with_digest(out: Path, recipe: Recipe, served: list[str]) -> Recipe:
    """Return the recipe with the digest of the model that painted the folder so far, which a new
    folder gets: the first of those that are `served`. ValueError where it is not among them."""
    if recipe.digest is None:
        recipe = replace(recipe, digest=served[0])
        _write_recipe(out, recipe)
    elif recipe.digest not in served:
        raise ValueError(
            f"{out} contains images of {recipe.model} with other weights or of another build than the cluster has now;"
            " choose another folder"
        )
    return recipe


def _write_recipe(out: Path, recipe: Recipe) -> None:
    write_file(out / RECIPE, json.dumps(asdict(recipe)) + "\n")


def missing_images(out: Path, n: int) -> tuple[int, ...]:
    """Return the indices of the images that are not in the folder yet."""
    present = {path.name for path in out.glob("*.png") if path.stat().st_size}
    return tuple(index for index in range(n) if file_name(index, n) not in present)


async def paint_folder(
    address: str, recipe: Recipe, out: Path, progress: Progress, default: int
) -> tuple[int, list[float]]:
    """Paint the missing images of a folder; return how many it has, and the bits/dim of those.
    default: how many it has where neither the recipe nor a list of classes says. ValueError where
    the cluster has no such service, the model no such class, or its images cannot be guided,
    EngineFailedError where the request failed on it."""
    if recipe.n is not None and not missing_images(out, recipe.n):
        return recipe.n, []
    # A guided image counts as two, and each of its candidates likewise.
    best_of = recipe.sampling.get("best_of") or MAX_BEST_OF
    slots = 2 * best_of * (recipe.n or max(default, MAX_LISTED))
    async with connect(address, recipe.model, slots) as replicas:
        config, defaults = await replicas.model()
        n = recipe.n or len(recipe.listed(config)) or default
        missing = missing_images(out, n)
        progress(n - len(missing), n)
        recipe = replace(recipe, n=n)
        ready = replicas.ready
        has_class_head = bool(ready and ready.class_head)
        model = ModelInfo(config, defaults, has_class_head=has_class_head)
        request = request_of(recipe, model)
        # the class head decides only which candidates are chosen
        digest = "whole_digest" if request.reads_class_head else "digest"
        served = [getattr(status, digest) for status in (ready, *replicas.known) if status]
        recipe = with_digest(out, recipe, served)
        request = replace(request, only=missing, digest=recipe.digest or "")
        request.largest_kind.check_slots(replicas.max_slots_per_image)
        file_recipe = recipe_of([request], config, recipe.model, request.digest)
        names = (None, *config.class_names)
        task = FolderTask(request, out, config.image_shape, progress, file_recipe, names)
        classes = [names[request.label_of(index)] for index in range(n)]
        write_classes(out, [file_name(index, n) for index in range(n)], classes)
        job = Job(replace(task.request, id=next(replicas.request_ids)), task)
        with replicas.reserve(job.slots_left) as reservation, replicas.run(job, reservation):
            async for _ in job.changes():
                for _ in task.work():
                    await asyncio.sleep(0)
    return n, task.result().bits_per_dim


def request_of(recipe: Recipe, model: ModelInfo) -> GenerateRequest:
    """Return the request for all images; InvalidInput where the model does not know the class, or
    cannot be guided."""
    names = recipe.listed(model.config) or recipe.class_name
    values = PaintValues(n=recipe.n, seed=recipe.seed, class_name=names, sampling=recipe.sampling)
    return paint.request_of(model, values)


@asynccontextmanager
async def connect(address: str, model: str, images: int) -> AsyncIterator[ReplicaPool]:
    """Yield the replicas of a model in a service on the Ray cluster at `address`,
    with room for so many waiting images.

    ValueError where there are none.
    """
    _join(address)
    try:
        handle = serve.get_deployment_handle(model, app_name=_service(model))
        # 2: this client shares the slots with one ingress at least
        replicas = ReplicaPool(handle, 2, EngineOptions(Path(model)), QueueLimits(images))
        replicas.start()
        try:
            yield replicas
        finally:
            await replicas.close()
    finally:
        ray.shutdown()


def _join(address: str) -> None:
    """Connect this process to the Ray cluster; ValueError with the reason where that fails."""
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if port.isdigit():  # fail within seconds: Ray itself retries for minutes
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
    except (OSError, ValueError, RuntimeError, RayError) as error:
        if any(
            isinstance(cause, AuthenticationError)
            for cause in (error, error.__cause__, error.__context__)
        ):
            reason = "it requires a token: set RAY_AUTH_MODE=token"
        else:
            reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"--cluster {address}: cannot connect to the Ray cluster ({reason})"
        ) from None


def _service(model: str) -> str:
    applications = serve.status().applications
    for name, application in applications.items():
        if INGRESS in application.deployments and model in application.deployments:
            return name
    services = [
        application.deployments
        for application in applications.values()
        if INGRESS in application.deployments
    ]
    models = sorted({name for deployments in services for name in deployments} - {INGRESS})
    served = f"it serves {', '.join(models)}" if models else "no service runs there"
    raise ValueError(f"--model {model}: the cluster does not serve it; {served}")
