"""`scanline sample --cluster`: images that a running service's replicas paint, without its fronts and their limits.

Into a folder they go one by one as they are done, so that thousands more than memory holds can be painted, and a run
that was stopped goes on where it stood.
"""

import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import ray
from ray import serve
from ray.exceptions import AuthenticationError, RayError

from scanline.model.atomic import write_atomically
from scanline.model.pictures import encode_image, file_name
from scanline.model.sampling.messages import Event, Failed, Finished, GenerateRequest
from scanline.server.cluster.application import FRONT
from scanline.server.cluster.replica_pool import ReplicaPool
from scanline.server.engine.client.job import EngineFailedError, PendingJob
from scanline.server.engine.worker.process import EngineOptions

RECIPE = "recipe.json"
CONNECT_SECONDS = 5.0
Progress = Callable[[int], None]  # is called with the number of images that are there


@dataclass(frozen=True)
class Recipe:
    """What makes all images of a folder the ones that they are."""

    model: str
    n: int
    seed: int
    temperature: float


class Folder(PendingJob):
    """A request whose images are written as they come, and forgotten."""

    def __init__(self, command: GenerateRequest, out: Path, shape: tuple[int, ...], progress: Progress) -> None:
        super().__init__(command)
        self.images, self.out, self.shape, self.progress = command.images, out, shape, progress
        self.bits_per_dim: list[float] = []  # of those that were painted now

    def receive(self, event: Event) -> None:
        """Writes an image that is done; one that cannot be written ends it all."""
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


def resumed(out: Path, wanted: Recipe, seed_is_drawn: bool) -> Recipe:
    """The recipe of a folder, new or of a run before; ValueError where that one painted something else."""
    out.mkdir(exist_ok=True)
    path = out / RECIPE
    if path.exists():
        try:
            found = Recipe(**json.loads(path.read_text()))
        except (ValueError, TypeError):
            raise ValueError(f"{path} is no recipe of an earlier run; choose another folder") from None
        if seed_is_drawn:
            wanted = Recipe(wanted.model, wanted.n, found.seed, wanted.temperature)
        if found != wanted:
            raise ValueError(f"{out} has images of {_told(found)}, not of {_told(wanted)}; choose another folder")
        return found
    if any(out.glob("*.png")):
        raise ValueError(f"{out} has images of which no {RECIPE} tells what they are; choose another folder")
    write_atomically(path, lambda temporary: temporary.write_text(json.dumps(asdict(wanted)) + "\n"))
    return wanted


def missing(out: Path, n: int) -> tuple[int, ...]:
    """The images of a folder that are not there yet."""
    there = {path.name for path in out.glob("*.png") if path.stat().st_size}
    return tuple(index for index in range(n) if file_name(index, n) not in there)


async def paint_folder(address: str, recipe: Recipe, out: Path, progress: Progress) -> list[float]:
    """Paints what is missing of a folder and returns the bits/dim of that.

    ValueError where no such service is there, EngineFailedError where its replicas were lost again and again.
    """
    only = missing(out, recipe.n)
    progress(recipe.n - len(only))
    if not only:
        return []
    async with fleet(address, recipe.model, len(only)) as replicas:
        command = GenerateRequest(next(replicas.request_ids), recipe.n, recipe.seed, recipe.temperature, only=only)
        folder = Folder(command, out, (await replicas.config()).image_shape, progress)
        with replicas.reserve(len(only)), replicas.run(folder):
            while not folder.has_ended:
                folder.changed.clear()
                await folder.changed.wait()
    if folder.failure:
        raise EngineFailedError(folder.failure)
    return folder.bits_per_dim


@asynccontextmanager
async def fleet(address: str, model: str, images: int) -> AsyncIterator[ReplicaPool]:
    """The replicas of a model that a service on the Ray cluster at `address` has, for so many images.

    ValueError where there are none.
    """
    _join(address)
    try:
        handle = serve.get_deployment_handle(model, app_name=_service(model))
        replicas = ReplicaPool(handle, 2, EngineOptions(Path(model)), images)  # beside one front at least
        replicas.start()
        try:
            yield replicas
        finally:
            await replicas.close()
    finally:
        ray.shutdown()


def _join(address: str) -> None:
    """Makes this process one of the cluster's; ValueError in a sentence where it cannot be."""
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if port.isdigit():  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
    except (OSError, ValueError, RuntimeError, RayError) as error:
        causes = (error, error.__cause__, error.__context__)
        if any(isinstance(cause, AuthenticationError) for cause in causes):
            reason = "it wants its token: set RAY_AUTH_MODE=token"
        else:
            reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"--cluster {address}: the Ray cluster cannot be joined ({reason})") from None


def _service(model: str) -> str:
    """The name of Serve's application that has the model."""
    found = serve.status().applications
    for name, application in found.items():
        if FRONT in application.deployments and model in application.deployments:
            return name
    models = sorted({one for each in found.values() for one in each.deployments if FRONT in each.deployments} - {FRONT})
    there = f"there are {', '.join(models)}" if models else "no service runs there"
    raise ValueError(f"--model {model}: the cluster does not serve it; {there}")


def _told(recipe: Recipe) -> str:
    return f"{recipe.model}, n {recipe.n}, seed {recipe.seed}, temperature {recipe.temperature:g}"
