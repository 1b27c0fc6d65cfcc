"""Reload of models while the server runs: the files that are in their
directories now, for new requests only.

A new engine starts while the old one serves. Once it is ready it gets all new requests, and the
old one stops when it has finished its own. Files that cannot be loaded leave the old engine as it
is. A model has two engines at most.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.models.registry import ModelRegistry, ServedModel, served_model

# in which requests begin that were given the old engine before the new one was ready
RETIRE_SECONDS = 2.0
NEEDED_SECONDS = 0.25  # between two looks at whether other processes need an engine
NOT_LOADABLE = "model_not_loadable"  # the code of an error that is logged where it is found

log = logging.getLogger("scanline.server")


class ReloadError(Exception):
    """A model was not reloaded; the message is one sentence."""

    def __init__(self, message: str, code: str = NOT_LOADABLE) -> None:
        super().__init__(message)
        self.code = code


class Reloader(Protocol):
    """Reloads models: in this process, or by a call of the one that has the engines."""

    def request_all(self) -> None:
        """Reload all models, as soon as possible; errors are logged."""

    async def reload(self, name: str, wait: bool = False) -> ServedModel:
        """Return the model with its new engine; UnknownModelError or
        ReloadError where there is none.
        """

    async def close(self) -> None:
        """Stop reloads in progress, and the engines that they concern."""


class ModelReloader:
    """Replaces models in a registry. Invariant: a model's lock is
    held as long as it has two engines.
    """

    def __init__(
        self, models: ModelRegistry, is_needed: Callable[[str], bool] = lambda digest: False
    ) -> None:
        """`is_needed`: whether requests of other processes need the model of that digest."""
        self.models = models
        self.is_needed = is_needed
        self.locks = {name: asyncio.Lock() for name in models.all}
        self.retiring: dict[asyncio.Task[None], EngineClient] = {}
        self.requested = asyncio.Event()  # by a signal
        self.on_request: asyncio.Task[None] | None = None

    def request_all(self) -> None:
        """Reload all models, as soon as possible; errors are logged."""
        self.requested.set()
        if self.on_request is None:
            self.on_request = asyncio.create_task(self._reload_on_request())

    async def reload(self, name: str, wait: bool = False) -> ServedModel:
        """Return the model with its new engine.

        UnknownModelError where there is no model of that name; ReloadError where its files
        cannot be loaded, or, unless `wait` is set, where it is being loaded or its engine before
        the last reload still has requests.
        """
        model = self.models.find(name)
        if not isinstance(model.engine, EngineClient):
            message = "The engines of this server are replicas of a cluster; deploy the service again instead."
            raise ReloadError(message, "reload_not_supported")
        lock = self.locks[model.id]
        is_first = model.engine.ready is None and not model.engine.failed.is_set()
        if is_first or (lock.locked() and not wait):
            message = f"The model {model.id} is being loaded, or its old engine still has requests; try again later."
            raise ReloadError(message, "reload_in_progress")
        await lock.acquire()
        try:
            old = self.models.all[model.id].engine
            assert isinstance(old, EngineClient)
            reloaded = await self._load(model.id, old)
        except BaseException:
            lock.release()
            raise
        self.models.all[model.id] = reloaded
        task = asyncio.create_task(self._retire(old, lock))
        self.retiring[task] = old
        task.add_done_callback(self.retiring.pop)
        return reloaded

    async def close(self) -> None:
        """Stop reloads in progress, and the engines that they concern."""
        if self.on_request is not None:
            self.on_request.cancel()
            await asyncio.gather(self.on_request, return_exceptions=True)
        engines = list(self.retiring.values())
        for task in self.retiring:
            task.cancel()
        await asyncio.gather(*self.retiring, return_exceptions=True)
        await asyncio.gather(*(engine.close() for engine in engines))

    async def _load(self, name: str, old: EngineClient) -> ServedModel:
        """Return the model with a new engine that is ready; nothing is
        left of one that cannot be loaded.
        """
        directory = str(old.options.directory)
        try:
            new = await asyncio.to_thread(EngineClient, old.options)
        except Exception as error:  # wrong files; no room on the disk, for a process or a thread
            raise self._not_loadable(name, str(error).replace(directory, name)) from None
        new.take_over(old)
        try:
            served = await asyncio.to_thread(served_model, new)
            new.start()
        except Exception as error:
            new.copy.remove()
            raise self._not_loadable(name, str(error).replace(str(new.directory), name)) from None
        try:
            ends = [asyncio.create_task(event.wait()) for event in (new.loaded, new.failed)]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()
            if new.ready is None:
                raise self._not_loadable(
                    name, (new.load_error or new.failure_reason).replace(directory, name)
                )
        except BaseException:
            await new.close()
            raise
        before = old.ready.digest if old.ready else "none"
        log.info(
            "the model %s was reloaded: its digest is %s, and was %s",
            name,
            new.ready.digest,
            before,
        )
        return served

    def _not_loadable(self, name: str, reason: str) -> ReloadError:
        log.error("reload of the model %s failed: %s", name, reason)
        return ReloadError(
            f"Reload of the model {name} failed; the previous version is still served: {reason}."
        )

    async def _retire(self, engine: EngineClient, lock: asyncio.Lock) -> None:
        try:
            await asyncio.sleep(RETIRE_SECONDS)
            await engine.unused.wait()
            while engine.users or (
                engine.ready is not None and self.is_needed(engine.ready.whole_digest)
            ):
                await asyncio.sleep(NEEDED_SECONDS)
            engine.failed.set()  # from here on it accepts nothing
            await engine.close()
        finally:
            lock.release()

    async def _reload_on_request(self) -> None:
        while await self.requested.wait():
            self.requested.clear()
            for name in self.models.all:
                try:
                    await self.reload(name, wait=True)
                except ReloadError as error:
                    if error.code != NOT_LOADABLE:  # that is logged
                        log.warning("SIGHUP: %s", error)
                except Exception:
                    log.exception("SIGHUP: the model %s was not reloaded", name)
