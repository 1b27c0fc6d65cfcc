"""`scanline serve --api-processes 2`: two processes speak HTTP and paint with one engine; neither needs the other."""

import os
import re
import signal
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.server.engine.remote.conftest import KEY, OPTIONS, only, wait_for_processes
from tests.support import small_models
from tests.support.pictures import painted
from tests.support.server.error_answers import ONE_SENTENCE
from tests.support.server.metrics_reader import Metrics, wait_until_idle
from tests.support.server.running_server import Server, serve
from tests.support.server.shared_servers import LONG, bearer
from tests.support.server.websocket_client import WebsocketClient, connected
from tests.support.tiny import GREY
from tests.support.waiting import PATIENCE, wait_for

URL, RELOAD = "/v1/images/generations", "/v1/models/changing/reload"
IMAGES = 300  # in four slots: many ticks


def client_of(server: Server, process: int) -> httpx.Client:
    """A client whose connection one API process has accepted."""
    client = server.client(headers=bearer(KEY))
    with only(server, process):
        assert client.get("/healthz").status_code == 200
    return client


def websocket_of(server: Server, process: int, stack: ExitStack) -> WebsocketClient:
    """An open websocket that one API process has accepted."""
    with only(server, process):
        return stack.enter_context(connected(server.url, additional_headers=bearer(KEY)))


def assert_paints(client: httpx.Client, model: Transformer, seed: int = 1) -> None:
    __tracebackhide__ = True
    posted = painted(client.post(URL, json={"n": 3, "seed": seed}).json())
    np.testing.assert_array_equal(posted.reshape(3, -1), paint(model, 3, seed=seed).images)


def test_each_process_paints_the_bytes_of_the_seed_and_the_metrics_are_those_of_both(
    shared_server: Server, processes: list[int], grey: Transformer
) -> None:
    clients = [client_of(shared_server, process) for process in processes]
    assert_paints(clients[0], grey)
    before = wait_until_idle(clients[0])
    for client in clients:
        assert_paints(client, grey)
    for client in clients:
        after = wait_until_idle(client)
        for name, labels, change in (
            ("images_total", {"finished_reason": "finished"}, 6),
            ("http_requests_total", {"path": URL, "status": "200"}, 2),
            ("images_by_key_total", {"key_name": "key-1"}, 6),
            ("generation_tokens_total", {}, 6 * GREY.bytes),
        ):
            assert after.of(name, **labels) - before.of(name, **labels) == change, name
        assert after.of("batch_slots") == 4
        assert after.of("engine_up") == 1
        client.close()


def test_counters_keep_what_a_process_has_counted_that_stands_still_or_ends(
    shared_server: Server, processes: list[int]
) -> None:
    with closing(client_of(shared_server, processes[0])) as client:
        requests = Metrics(client).of("http_requests_total")
        with only(shared_server, processes[0]):
            assert requests <= Metrics(client).of("http_requests_total") <= requests + 1
        requests = Metrics(client).of("http_requests_total")
        os.kill(processes[1], signal.SIGKILL)
        wait_for(lambda: processes[1] not in shared_server.api_processes(), "the end of the process")
        assert Metrics(client).of("http_requests_total") >= requests


def test_an_engine_that_is_killed_costs_no_process_a_byte(
    shared_server: Server, processes: list[int], grey: Transformer
) -> None:
    with ExitStack() as stack:
        sockets = [websocket_of(shared_server, process, stack) for process in processes]
        for seed, socket in enumerate(sockets):
            socket.send(type="generate", id="job", n=IMAGES, seed=seed)
            socket.receive()
        os.kill(shared_server.engine, signal.SIGKILL)
        for seed, socket in enumerate(sockets):
            received = socket.receive_until_finished(1)["job"]
            assert received.order[-1] == "done"
            np.testing.assert_array_equal(received.images(), paint(grey, IMAGES, seed=seed).images)


def test_a_process_that_is_killed_loses_its_own_requests_only_and_is_started_again(
    shared_server: Server, processes: list[int], grey: Transformer
) -> None:
    killed, other = processes
    with ExitStack() as stack:
        lost, kept = (websocket_of(shared_server, process, stack) for process in (killed, other))
        lost.send(type="generate", id="job", n=LONG, seed=1)
        lost.receive()
        kept.send(type="generate", id="job", n=IMAGES, seed=2)
        kept.receive()
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(Exception, match=r"close frame|reset"):
            lost.receive_until_finished(1)
        received = kept.receive_until_finished(1)["job"].images()
        np.testing.assert_array_equal(received, paint(grey, IMAGES, seed=2).images)
    after = wait_for_processes(shared_server)
    assert other in after
    assert killed not in after
    (new,) = set(after) - {other}
    with closing(client_of(shared_server, new)) as client:
        wait_until_idle(client)  # the lost request has left the engine
        assert_paints(client, grey)
    assert "an API process ended (signal SIGKILL)" in "".join(shared_server.log)


def test_processes_that_are_killed_leave_no_descriptors_in_the_main_one(
    shared_server: Server, processes: list[int]
) -> None:
    def open_files() -> int:
        return len(os.listdir(f"/proc/{shared_server.process.pid}/fd"))

    before = open_files()
    for _ in range(2):
        os.kill(killed := wait_for_processes(shared_server)[0], signal.SIGKILL)
        wait_for(lambda killed=killed: not Path(f"/proc/{killed}").exists(), "the end of the process")
    wait_for_processes(shared_server)
    wait_for(lambda: open_files() <= before, "as many open files as before")


def test_a_server_whose_main_process_hangs_is_not_ready_and_not_alive(
    shared_server: Server, processes: list[int]
) -> None:
    with closing(client_of(shared_server, processes[0])) as client:
        assert client.get("/readyz").status_code == client.get("/healthz").status_code == 200
        os.kill(shared_server.process.pid, signal.SIGSTOP)
        try:
            wait_for(lambda: client.get("/readyz").status_code == 503, "an answer that says so")
            wait_for(lambda: client.get("/healthz").status_code == 503, "an answer that says so")
            error = client.get("/healthz").json()["error"]
        finally:
            os.kill(shared_server.process.pid, signal.SIGCONT)
        assert (error["type"], error["code"]) == ("server_error", "main_process_silent")
        assert ONE_SENTENCE.fullmatch(error["message"])
        for probe in ("/healthz", "/readyz"):
            wait_for(lambda probe=probe: client.get(probe).status_code == 200, "the main process")


def test_a_process_that_hangs_is_killed_and_started_again_and_a_signal_drains_both(
    grey_directory: Path, grey: Transformer
) -> None:
    # the second holds for one that is stopped before the main process has heard of it
    patient = ("--engine-timeout", "10", "--load-timeout", "60", "--drain-seconds", str(PATIENCE))
    with serve(grey_directory, *OPTIONS, *patient) as server, ExitStack() as stack:
        hanging, other = wait_for_processes(server)
        os.kill(hanging, signal.SIGSTOP)
        wait_for(lambda: hanging not in server.api_processes(), "the end of the process that hangs")
        assert re.search("an API process is silent for [16]0 seconds and is killed", "".join(server.log))
        both = wait_for_processes(server)
        assert other in both
        sockets = [websocket_of(server, process, stack) for process in both]
        for seed, socket in enumerate(sockets):
            socket.send(type="generate", id="job", n=IMAGES, seed=seed)
            socket.receive()
        server.process.send_signal(signal.SIGTERM)
        for seed, socket in enumerate(sockets):
            received = socket.receive_until_finished(1)["job"].images()
            np.testing.assert_array_equal(received, paint(grey, IMAGES, seed=seed).images)
        assert server.wait_until_exited() == 0


def test_a_model_that_is_reloaded_by_one_process_is_served_by_both(tmp_path: Path, grey: Transformer) -> None:
    directory = tmp_path / "changing"
    save_model(grey, directory)
    with serve(directory, *OPTIONS) as server, ExitStack() as stack:
        first, second = wait_for_processes(server)
        clients = [stack.enter_context(closing(client_of(server, process))) for process in (first, second)]
        streaming = websocket_of(server, second, stack)
        streaming.send(type="generate", id="job", n=IMAGES, seed=1)
        streaming.receive()
        save_model(small_models.model(replace(GREY, height=4)), directory)
        new = load_model(directory)
        card = clients[0].post("/v1/models/changing/reload").json()
        assert (card["height"], card["width"]) == (4, 5)
        for client in clients:
            # the other process hears of it a moment later
            wait_for(lambda client=client: client.get("/v1/models/changing").json() == card, "the new model")
            assert_paints(client, new)
        received = streaming.receive_until_finished(1)["job"].images()
        np.testing.assert_array_equal(received, paint(grey, IMAGES, seed=1).images)

        (directory / "config.json").write_bytes(b"no model")
        refused = wait_for(
            lambda: None if "reload_in_progress" in (answer := clients[1].post(RELOAD)).text else answer, "an answer"
        )
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (409, "model_not_loadable")
        assert ONE_SENTENCE.fullmatch(error["message"])
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "SIGHUP: Reload of the model changing failed" in "".join(server.log), "a second attempt")
        for client in clients:
            assert_paints(client, new)


def test_a_signal_right_after_the_start_ends_the_server_with_0(grey_directory: Path) -> None:
    server = Server(grey_directory, *OPTIONS)
    wait_for(lambda: "an API process has started" in "".join(server.log), "a process that is not ready yet")
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_until_exited() == 0


def test_a_second_signal_and_a_kill_leave_no_process_behind(grey_directory: Path) -> None:
    for signals, status in (((signal.SIGINT, signal.SIGINT), 130), ((signal.SIGKILL,), -signal.SIGKILL)):
        with serve(grey_directory, *OPTIONS) as server, ExitStack() as stack:
            socket = websocket_of(server, wait_for_processes(server)[0], stack)
            socket.send(type="generate", id="job", n=LONG, seed=1)
            socket.receive()
            for number in signals:
                server.process.send_signal(number)
                wait_for(lambda: server.process.poll() is not None or "draining" in "".join(server.log), "a reaction")
            assert server.wait_until_exited() == status  # which waits until all processes have closed the log


def test_a_model_that_cannot_be_loaded_ends_the_server_with_one_sentence(tmp_path: Path, grey: Transformer) -> None:
    save_model(grey, tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"no weights")
    server = Server(tmp_path / "broken", *OPTIONS)
    assert server.wait_until_exited() == 2
    log = "".join(server.log)
    assert "Traceback" not in log
    assert len([line for line in log.splitlines() if "model.safetensors" in line and "[" not in line]) == 1, log
