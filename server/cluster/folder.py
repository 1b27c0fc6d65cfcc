"""`scanline sample --cluster`: a folder of images painted by a running service's replicas, without its ingress.

Each image is written as soon as it is finished and is not kept in memory. A folder that an earlier run left incomplete
is completed.
"""

import json
import logging
import socket
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import ray
from ray import serve
from ray.exceptions import AuthenticationError, RayError

from scanline.model.atomic import write_atomically
from scanline.model.config import ModelConfig
from scanline.model.defaults import Defaults
from scanline.model.images.pictures import encode_image
from scanline.model.images.saving import file_name
from scanline.model.sampling.messages import Event, Failed, Finished, GenerateRequest
from scanline.server.cluster.application import INGRESS
from scanline.server.engine.job import PendingJob
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.remote.over_ray import ReplicaPool
from scanline.server.engine.worker.process import EngineOptions

RECIPE = "recipe.json"
CONNECT_SECONDS = 5.0
Progress = Callable[[int], None]  # called with the number of images in the folder


@dataclass(frozen=True)
class Recipe:
    """What determines all images of a folder; None: the model's default."""

    model: str
    n: int
    seed: int
    temperature: float | None = None
    class_name: str | None = None
    guidance: float | None = None
    digest: str | None = None  # of the model, once a run has painted; no part of what a user asks for

    def __str__(self) -> str:
        shows = "" if self.class_name is None else f", class {self.class_name}"
        drawn = "" if self.temperature is None else f", temperature {self.temperature:g}"
        guided = "" if self.guidance is None else f", guidance {self.guidance:g}"
        return f"{self.model}, n {self.n}, seed {self.seed}{drawn}{shows}{guided}"


class FolderJob(PendingJob):
    """A request whose images are written to a folder as they finish."""

    def __init__(self, command: GenerateRequest, out: Path, shape: tuple[int, ...], progress: Progress) -> None:
        super().__init__(command)
        self.images, self.out, self.shape, self.progress = command.n, out, shape, progress
        self.bits_per_dim = array("d")  # of the images that this run painted

    def receive(self, event: Event) -> None:
        """Write a finished image. One that cannot be written fails the job."""
        if isinstance(event, Finished) and event.index in self.missing:
            try:
                self._write(event)
            except OSError as error:
                event = Failed(self.id, f"{self.out}: {error.strerror}.")
        super().receive(event)
        self.progress(self.images - self.images_left)

    def _write(self, event: Finished) -> None:
        image = encode_image(np.frombuffer(event.image, np.uint8).reshape(self.shape), "png")
        path = self.out / file_name(event.index, self.images)
        temporary = path.with_suffix(".part")
        temporary.write_bytes(image)
        temporary.replace(path)
        self.bits_per_dim.append(event.bits_per_dim)


def open_folder(out: Path, recipe: Recipe, seed_is_random: bool) -> Recipe:
    """Return the recipe of a new folder, or of an earlier run's; ValueError where that one differs.

    The earlier run's seed replaces a random one.
    """
    out.mkdir(exist_ok=True)
    path = out / RECIPE
    if path.exists():
        try:
            earlier = Recipe(**json.loads(path.read_text()))
        except (ValueError, TypeError):
            raise ValueError(f"{path} is not a recipe of an earlier run; choose another folder") from None
        if seed_is_random:
            recipe = replace(recipe, seed=earlier.seed)
        if replace(earlier, digest=None) != recipe:
            raise ValueError(f"{out} contains images of {earlier}, not of {recipe}; choose another folder")
        return earlier
    if any(out.glob("*.png")):
        raise ValueError(f"{out} contains images but no {RECIPE} of an earlier run; choose another folder")
    _write_recipe(out, recipe)
    return recipe


def with_digest(out: Path, recipe: Recipe, served: list[str]) -> Recipe:
    """Return the recipe with the digest of the model that painted the folder so far, which a new folder gets: the first
    of those that are `served`. ValueError where it is not among them."""
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
    write_atomically(out / RECIPE, lambda temporary: temporary.write_text(json.dumps(asdict(recipe)) + "\n"))


def missing_images(out: Path, n: int) -> tuple[int, ...]:
    """Return the indices of the images that are not in the folder yet."""
    present = {path.name for path in out.glob("*.png") if path.stat().st_size}
    return tuple(index for index in range(n) if file_name(index, n) not in present)


async def paint_folder(address: str, recipe: Recipe, out: Path, progress: Progress) -> list[float]:
    """Paint the missing images of a folder and return their bits/dim.

    ValueError where the cluster has no such service, the model no such class, or its images cannot be guided;
    EngineFailedError where the request failed on it.
    """
    missing = missing_images(out, recipe.n)
    progress(recipe.n - len(missing))
    if not missing:
        return []
    async with connect(address, recipe.model, 2 * len(missing)) as replicas:  # a guided image counts as two
        config, defaults = await replicas.model()
        recipe = with_digest(out, recipe, [replicas.digest, *(status.digest for status in replicas.known)])
        job = folder_job(recipe, missing, replicas, config, defaults, out, progress)
        with replicas.reserve(job.slots_left) as reservation, replicas.run(job, reservation):
            await job.wait()
    return job.bits_per_dim.tolist()


def folder_job(
    recipe: Recipe,
    missing: tuple[int, ...],
    replicas: ReplicaPool,
    config: ModelConfig,
    defaults: Defaults,
    out: Path,
    progress: Progress,
) -> FolderJob:
    """Return the job that paints the missing images; InvalidInput where the model does not know the class, or cannot be
    guided on these replicas."""
    choice = defaults.to_paint(config, recipe.class_name, recipe.guidance, recipe.temperature)
    request = GenerateRequest(
        next(replicas.request_ids),
        recipe.n,
        recipe.seed,
        only=missing,
        digest=recipe.digest or "",
        **choice.to_dict(),
    )
    request.check_slots(replicas.max_slots_per_image)
    return FolderJob(request, out, config.image_shape, progress)


@asynccontextmanager
async def connect(address: str, model: str, images: int) -> AsyncIterator[ReplicaPool]:
    """Yield the replicas of a model in a service on the Ray cluster at `address`, with room for so many waiting images.

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
        causes = (error, error.__cause__, error.__context__)
        if any(isinstance(cause, AuthenticationError) for cause in causes):
            reason = "it requires a token: set RAY_AUTH_MODE=token"
        else:
            reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"--cluster {address}: cannot connect to the Ray cluster ({reason})") from None


def _service(model: str) -> str:
    """Return the name of the Serve application that has the model."""
    applications = serve.status().applications
    for name, application in applications.items():
        if INGRESS in application.deployments and model in application.deployments:
            return name
    services = [application.deployments for application in applications.values() if INGRESS in application.deployments]
    models = sorted({name for deployments in services for name in deployments} - {INGRESS})
    served = f"it serves {', '.join(models)}" if models else "no service runs there"
    raise ValueError(f"--model {model}: the cluster does not serve it; {served}")
