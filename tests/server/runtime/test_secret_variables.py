"""Secrets of a server's environment are not in that of the processes that
it starts, and have their effect.
"""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scanline.server.runtime.secret_variables import SECRET
from tests.support.server.infrastructure.otel_collector import collecting
from tests.support.server.running_server import command_line, descendants, serve
from tests.support.server.shared_servers import bearer
from tests.support.waiting import wait_for

SECRETS = {
    "scanline_api_keys": "sk-first",
    "HF_TOKEN": "hf-second",
    "OTEL_EXPORTER_OTLP_HEADERS": "x-key=third",
}
PUBLIC = (
    "PATH",
    "CUDA_VISIBLE_DEVICES",
    "SCANLINE_LOG_LEVEL",
    "TOKENIZERS_PARALLELISM",
    "KEYBOARD",
)


def test_a_secret_is_known_by_its_name():
    names = [*SECRETS, "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "HUGGING_FACE_HUB_TOKEN"]
    assert [name for name in (*names, *PUBLIC) if SECRET.search(name)] == names


def assert_no_secrets(server, *names):
    """Of all processes of the server but the first; among them are some
    with these names in their commands.
    """
    __tracebackhide__ = True
    commands = ""
    for process in descendants(server.process.pid):
        command = command_line(process)
        environment = Path(f"/proc/{process}/environ").read_text()
        assert "PATH=" in environment, command
        for secret in SECRETS.values():
            assert secret not in environment, command
        commands += command
    for name in names:
        assert name in commands


@pytest.mark.parametrize("processes", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_no_process_that_a_server_starts_has_a_secret(grey_directory, monkeypatch, processes):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds between two exports
    with (
        collecting() as (url, collector),
        serve(
            grey_directory, "--api-processes", processes, "--otlp-endpoint", url, forked=False
        ) as server,
    ):
        with server.client(headers=bearer("sk-first")) as client, ThreadPoolExecutor(1) as threads:
            exporting = threads.submit(client.get, "/v1/models/grey/weights")
            wait_for(
                lambda: (
                    "weights_export" in "".join(map(command_line, descendants(server.process.pid)))
                ),
                "an export",
            )
            assert_no_secrets(server, "forkserver", "weights_export")
            assert exporting.result().status_code == 200
            # Processes that are started later have none either, and the key
            # of the environment outlives a reload.
            before = server.engine
            os.kill(before, signal.SIGKILL)
            server.wait_for_engine(after=before)
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log("was reloaded")
            assert_no_secrets(server)
            assert client.get("/v1/models").status_code == 200
        with server.client() as stranger:
            assert stranger.get("/v1/models").status_code == 401
        collector.wait_for(lambda span: span.name.startswith("GET"))
        assert collector.keys == {"third"}
