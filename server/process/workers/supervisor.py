"""The main process: has the engines, starts the API processes, and starts each
again that ends before the server does.

It relays their requests, reports the engines' state to them, answers their calls, and passes
signals on. What an API process had in progress when it ended is cancelled, without effect on
the other processes and the engines.
"""

import asyncio
import logging
import signal
from contextlib import suppress
from time import monotonic

from prometheus_client.metrics_core import Metric

from scanline.server.api.base.api_keys import ApiKeys
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.remote.over_pipe import Statuses
from scanline.server.engine.remote.status import EngineStatus
from scanline.server.models.registry import ModelRegistry, UnknownModelError
from scanline.server.models.reload import ModelReloader, ReloadError
from scanline.server.process.listening import Listening
from scanline.server.process.merged_metrics import counted
from scanline.server.process.running import CLOSING_SECONDS
from scanline.server.process.tls import TlsCertificate
from scanline.server.process.workers.api_process import ApiProcess, Method
from scanline.server.runtime.lifecycle import ERROR_RESPONSE_SECONDS, Lifecycle
from scanline.server.runtime.memory import collect_rarely
from scanline.server.runtime.signals import handle_signals
from scanline.server.settings import Settings

REPORT_SECONDS = 0.25  # between two reports of the engines' state
RESTART_DELAYS = (0.0, 0.5, 1.0, 2.0, 4.0)  # seconds, by API processes in a row that ended early
STEADY_SECONDS = 30.0  # an API process that lived for so long did not end early
# after the drain's limit; then it is killed
EXIT_SECONDS = 2 * (ERROR_RESPONSE_SECONDS + CLOSING_SECONDS)

log = logging.getLogger("scanline.server")


class Supervisor:
    """All API processes of a server."""

    def __init__(
        self,
        settings: Settings,
        models: ModelRegistry,
        listening: Listening,
        keys: ApiKeys | None,
        certificate: TlsCertificate | None,
    ) -> None:
        self.settings = settings
        self.models = models
        self.listening = listening
        self.keys = keys
        self.certificate = certificate
        self.reloader = ModelReloader(models, self._is_needed)
        self.stopping = asyncio.Event()
        self.running: set[ApiProcess] = set()
        self.ended: list[Metric] = []  # what processes that have ended have counted
        self.methods: dict[str, Method] = {
            "metrics": self._metrics,
            "reload": self._reload,
            "drained": self._drained,
        }

    async def run(self) -> list[int]:
        """Keep all API processes alive until `stop`; return the statuses they exited with then."""
        tasks = [asyncio.create_task(self._report())]
        for renewed in (self.keys, self.certificate):
            if renewed is not None and renewed.watch is not None:
                tasks.append(asyncio.create_task(renewed.watch.run()))
        try:
            return await asyncio.gather(*(self._keep() for _ in range(self.settings.api_processes)))
        finally:
            for task in tasks:
                task.cancel()
            await self.reloader.close()

    def stop(self) -> None:
        """Let all API processes drain and exit; those that take too long are killed.

        Each has sockets of its own and starts no more. Those of this process,
        which accepts nothing, would keep connections waiting once the others have
        closed, and reset them at its exit.
        """
        self.stopping.set()
        self.listening.close()
        self.signal(signal.SIGTERM)
        asyncio.get_running_loop().call_later(
            self.settings.drain_seconds + EXIT_SECONDS, self.signal, signal.SIGKILL
        )

    def signal(self, number: signal.Signals) -> None:
        """Send all API processes a signal."""
        for process in self.running:
            process.signal(number)

    def statuses(self, process: ApiProcess | None = None) -> Statuses:
        """Return the state of all engines as one API process sees it; None: as a new one."""
        others = [other for other in self.running if other is not process]
        return {
            name: EngineStatus.of(
                model.engine,
                model.config,
                model.defaults,
                sum(other.requests.images(name) for other in others),
            )
            for name, model in self.models.all.items()
        }

    def report(self) -> None:
        """Send all API processes the state of the engines."""
        for process in self.running:
            process.requests.pipe.send(self.statuses(process))

    def find_engine(self, model: str, digest: str) -> EngineClient | None:
        """Return the engine that a request of that digest is for: the
        model's, or one before its last reload.
        """
        engines = [self.models.all[model].engine, *self.reloader.retiring.values()]
        for engine in engines:
            if (
                isinstance(engine, EngineClient)
                and engine.ready
                and engine.ready.whole_digest.startswith(digest)
            ):
                return engine
        return None

    def _is_needed(self, digest: str) -> bool:
        """Return whether an API process has requests for a replaced model
        of that digest, submitted or not.
        """
        if any(
            model.engine.ready and model.engine.ready.whole_digest == digest
            for model in self.models.all.values()
        ):
            return False
        return any(digest in process.requests.digests for process in self.running)

    async def _metrics(self, caller: ApiProcess, _: None) -> list[list[Metric]]:
        """Return the metrics of all API processes, which know the engines' newest state before they
        are asked, and then what those that have ended have counted."""
        self.report()
        ended = self.ended  # one that ends meanwhile is among those that are asked
        return [*await asyncio.gather(*(process.metrics() for process in self.running)), ended]

    async def _reload(self, caller: ApiProcess, model: str) -> Exception | None:
        """Reload a model, and report it before the answer; return why it was not reloaded."""
        try:
            await self.reloader.reload(model)
        except (UnknownModelError, ReloadError) as error:
            return error
        self.report()
        return None

    async def _drained(self, caller: ApiProcess, _: None) -> None:
        caller.has_drained = True
        self._let_exit()
        await caller.may_exit.wait()

    def _let_exit(self) -> None:
        """Let all API processes exit once each of them has drained."""
        if all(process.has_drained for process in self.running):
            for process in self.running:
                process.may_exit.set()

    async def _report(self) -> None:
        while True:
            self.report()
            await asyncio.sleep(REPORT_SECONDS)
            for process in self.running:
                process.check()

    async def _keep(self) -> int:
        """Start an API process whenever the one before has ended;
        return the last one's exit status.
        """
        early = 0
        while True:
            began = monotonic()
            try:
                how = _cause(status := await self._run_one())
                if self.stopping.is_set():
                    return status
            except OSError as error:  # no room for a process
                how = f"it cannot be started: {error}"
            early = 0 if monotonic() - began > STEADY_SECONDS else early + 1
            log.error(
                "an API process ended (%s); its requests are lost, and another one starts", how
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    self.stopping.wait(), RESTART_DELAYS[min(early, len(RESTART_DELAYS) - 1)]
                )
                return 0

    async def _run_one(self) -> int:
        for model in self.models.all.values():
            if isinstance(model.engine, EngineClient):  # whose files it reads
                await asyncio.to_thread(model.engine.copy.keep)
        process = ApiProcess(
            self.settings,
            self.listening,
            self.keys,
            self.certificate,
            self.statuses(),
            self.find_engine,
            self.methods,
        )
        self.running.add(process)
        status = await process.ended()
        self.running.discard(process)
        self.ended = counted([self.ended, process.last_metrics])
        self._let_exit()
        return status


async def run(
    settings: Settings,
    models: ModelRegistry,
    listening: Listening,
    keys: ApiKeys | None = None,
    certificate: TlsCertificate | None = None,
) -> int:
    """Serve by `settings.api_processes` processes until a signal or the last
    engine's death; return the exit status.

    As `running.run`: 0 where all of them were stopped by a signal and had answered everything.
    """
    lifecycle = Lifecycle()
    for model in models.all.values():
        model.engine.start()
    supervisor = Supervisor(settings, models, listening, keys, certificate)

    def reload() -> None:
        supervisor.reloader.request_all()
        supervisor.signal(signal.SIGHUP)  # for the keys and the certificate

    handle_signals(lifecycle, reload)
    collect_rarely()
    serving = asyncio.create_task(supervisor.run())
    signalled = asyncio.create_task(lifecycle.draining.wait())
    engines_failed = asyncio.create_task(models.all_failed())
    await asyncio.wait({serving, signalled, engines_failed}, return_when=asyncio.FIRST_COMPLETED)
    supervisor.stop()
    statuses = await serving
    await asyncio.gather(*(model.engine.close() for model in models.all.values()))
    if engines_failed.done():
        models.raise_load_errors()
    return 0 if signalled.done() and not any(statuses) else 1


def _cause(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
