"""A server in this process, with small send buffers: what a client
does not read stays at the server.
"""

import socket
import threading
from contextlib import contextmanager

import uvicorn
from starlette.testclient import TestClient

from scanline.model.sampling.base.messages import Cancel, Failed
from scanline.server.api.base.budgets import Budgets
from scanline.server.api.transport.uvicorn_options import uvicorn_options
from scanline.server.engine.queue_limits import QueueUsage
from scanline.server.engine.worker.process import EngineOptions
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.settings import Settings
from tests.support.waiting import wait_for


def client_of_app(model, **settings):
    """A client of an application whose engines are not started."""
    given = Settings(models=(str(model),), **settings)
    return TestClient(build(given, served_models(given)))


@contextmanager
def serve_in_process(settings, kind=EngineOptions):
    """The server's address and its engine client, once it is ready,
    for as long as the context lasts.
    """
    models = served_models(settings)
    models.default.engine.options = kind(**vars(models.default.engine.options))
    budgets = Budgets(settings)
    app = build(settings, models, budgets=budgets)
    options = uvicorn_options(settings, app.state.counters, budgets)
    server = uvicorn.Server(uvicorn.Config(app, ws_ping_interval=None, **options))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_for(
                lambda: models.default.engine.is_ready or not thread.is_alive(),
                "an engine that is ready",
            )
            assert thread.is_alive()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", models.default.engine
        finally:
            server.should_exit = True
            thread.join()


def wait_until_no_jobs(engine):
    wait_for(
        lambda: engine.admission.total == QueueUsage() and not engine.jobs,
        "an engine client without jobs",
    )


def fail_all_jobs(engine):
    """Delivers a failure of every running job, as if the engine had reported it."""
    for request in list(engine.jobs):
        engine.process.pipe.loop.call_soon_threadsafe(
            engine._receive, [Failed(request, "It broke.")]
        )
        engine.process.pipe.send(Cancel(request))  # the engine itself still works on it
