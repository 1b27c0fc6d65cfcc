"""`scanline serve --api-processes 2`: two processes speak HTTP and paint with one
engine; neither needs the other.
"""

import os
import re
import signal
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial

import httpx
import pytest
from numpy.testing import assert_array_equal

from scanline.model.formats.checkpoint import load_model, save_class_head, save_model
from scanline.model.formats.model_dir import CLASS_HEAD
from scanline.model.inference import load
from scanline.model.tasks.offline import paint
from tests.server.engine.remote.conftest import KEY, OPTIONS, only, wait_for_processes
from tests.support import shapes, small_models
from tests.support.pictures import encode, painted, text
from tests.support.server.error_answers import ONE_SENTENCE
from tests.support.server.infrastructure.certificates import write_certificate
from tests.support.server.metrics_reader import Metrics, wait_until_idle
from tests.support.server.running_server import Server, serve
from tests.support.server.shared_servers import LONG, bearer
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE, wait_for

URL = "/v1/images/generations"
RELOAD = "/v1/models/changing/reload"
IMAGES = 300  # in four slots: many ticks


def client_of(server, process):
    """A client whose connection one API process has accepted."""
    client = server.client(headers=bearer(KEY))
    with only(server, process):
        assert client.get("/healthz").status_code == 200
    return client


def websocket_of(server, process, stack):
    """An open websocket that one API process has accepted."""
    with only(server, process):
        return stack.enter_context(connected(server.url, additional_headers=bearer(KEY)))


def begin(socket, seed, images=IMAGES):
    socket.send(type="generate", id="job", n=images, seed=seed)
    socket.receive()


def assert_finishes(socket, model, seed):
    __tracebackhide__ = True
    received = socket.receive_until_finished(1)["job"]
    assert received.last == "done"
    assert_array_equal(received.images(), paint(model, IMAGES, seed=seed).images)


def assert_paints(client, model, seed=1):
    __tracebackhide__ = True
    posted = painted(client.post(URL, json={"n": 3, "seed": seed}).json())
    assert_array_equal(posted.reshape(3, -1), paint(model, 3, seed=seed).images)


def test_both_paint_and_count_together(shared_server, processes, grey):
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
            ("generation_tokens_total", {}, 6 * small_models.GREY.bytes),
        ):
            assert after.of(name, **labels) - before.of(name, **labels) == change, name
        assert after.of("batch_slots") == 4
        assert after.of("engine_up") == 1
        client.close()


def test_counters_keep_what_a_stopped_or_ended_process_counted(shared_server, processes):
    with closing(client_of(shared_server, processes[0])) as client:
        requests = Metrics(client).of("http_requests_total")
        with only(shared_server, processes[0]):
            assert requests <= Metrics(client).of("http_requests_total") <= requests + 1
        requests = Metrics(client).of("http_requests_total")
        os.kill(processes[1], signal.SIGKILL)
        wait_for(
            lambda: processes[1] not in shared_server.api_processes(), "the end of the process"
        )
        assert Metrics(client).of("http_requests_total") >= requests


def test_a_killed_process_is_replaced(shared_server, processes, grey):
    """It loses its own requests only, and leaves no descriptor in the main process."""

    def open_files():
        return len(os.listdir(f"/proc/{shared_server.process.pid}/fd"))

    before, (killed, other) = open_files(), processes
    with closing(client_of(shared_server, other)) as client:
        painted_before = Metrics(client).of("generation_tokens_total")
    with ExitStack() as stack:
        lost, kept = (websocket_of(shared_server, process, stack) for process in (killed, other))
        begin(lost, 1, LONG)
        begin(kept, 2)
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(Exception, match=r"close frame|reset"):
            lost.receive_until_finished(1)
        assert_finishes(kept, grey, 2)
    after = wait_for_processes(shared_server)
    assert other in after
    assert killed not in after
    (new,) = set(after) - {other}
    with closing(client_of(shared_server, new)) as client:
        # the lost request has left the engine, which did not paint on for it
        idle = wait_until_idle(client)
        assert idle.of("generation_tokens_total") - painted_before < LONG * small_models.GREY.bytes
        assert_paints(client, grey)
    assert "an API process ended (signal SIGKILL)" in shared_server.log_text
    wait_for(lambda: open_files() <= before, "as many open files as before")


def test_a_server_whose_main_process_hangs_is_not_ready_nor_alive(shared_server, processes):
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


def test_a_process_that_hangs_is_replaced_and_a_signal_drains_both(grey_directory, grey):
    # the second holds for one that is stopped before the main process has heard of it
    patient = ("--engine-timeout", "10", "--load-timeout", "60", "--drain-seconds", str(PATIENCE))
    with serve(grey_directory, *OPTIONS, *patient) as server, ExitStack() as stack:
        hanging, other = wait_for_processes(server)
        os.kill(hanging, signal.SIGSTOP)
        wait_for(lambda: hanging not in server.api_processes(), "the end of the process that hangs")
        killed = re.compile("an API process is silent for [16]0 seconds and is killed")
        wait_for(lambda: killed.search(server.log_text), "the line of the log that says so")
        both = wait_for_processes(server)
        assert other in both
        sockets = [websocket_of(server, process, stack) for process in both]
        for seed, socket in enumerate(sockets):
            begin(socket, seed)
        server.process.send_signal(signal.SIGTERM)
        for seed, socket in enumerate(sockets):
            assert_finishes(socket, grey, seed)
        assert server.wait_until_exited() == 0


def test_a_model_that_is_reloaded_by_one_process_is_served_by_both(tmp_path, grey):
    directory = tmp_path / "changing"
    save_model(grey, directory)
    with serve(directory, *OPTIONS) as server, ExitStack() as stack:
        first, second = wait_for_processes(server)
        clients = [
            stack.enter_context(closing(client_of(server, process))) for process in (first, second)
        ]
        streaming = websocket_of(server, second, stack)
        begin(streaming, 1)
        save_model(small_models.model(replace(small_models.GREY, height=4)), directory)
        new = load_model(directory)
        card = clients[0].post(RELOAD).json()
        assert (card["height"], card["width"]) == (4, 5)
        for client in clients:
            # the other process hears of it a moment later
            wait_for(
                lambda client=client: client.get("/v1/models/changing").json() == card,
                "the new model",
            )
            assert_paints(client, new)
        assert_finishes(streaming, grey, 1)
        (directory / "config.json").write_bytes(b"no model")
        refused = wait_for(
            lambda: (
                None if "reload_in_progress" in (answer := clients[1].post(RELOAD)).text else answer
            ),
            "an answer",
        )
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (409, "model_not_loadable")
        assert ONE_SENTENCE.fullmatch(error["message"])
        server.process.send_signal(signal.SIGHUP)
        failed = "reload of the model changing failed"
        wait_for(lambda: server.log_text.count(failed) == 2, "a second attempt")
        assert "SIGHUP" not in server.log_text, "a failure is logged once"
        for client in clients:
            assert_paints(client, new)


def test_a_signal_right_after_the_start_ends_the_server_with_0(grey_directory):
    server = Server(grey_directory, *OPTIONS)
    server.wait_for_log("an API process has started")
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_until_exited() == 0


def test_a_second_signal_and_a_kill_leave_no_process_behind(grey_directory):
    for signals, status in (
        ((signal.SIGINT, signal.SIGINT), 130),
        ((signal.SIGKILL,), -signal.SIGKILL),
    ):
        with serve(grey_directory, *OPTIONS) as server, ExitStack() as stack:
            begin(websocket_of(server, wait_for_processes(server)[0], stack), 1, LONG)
            for number in signals:
                server.process.send_signal(number)
                wait_for(
                    lambda: server.process.poll() is not None or "draining" in server.log_text,
                    "a reaction",
                )
            # which waits until all processes have closed the log
            assert server.wait_until_exited() == status


def test_a_model_that_cannot_be_loaded_ends_the_server_with_one_sentence(tmp_path, grey):
    save_model(grey, tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"no weights")
    server = Server(tmp_path / "broken", *OPTIONS)
    assert server.wait_until_exited() == 2
    log = server.log_text
    assert "Traceback" not in log
    assert (
        len([line for line in log.splitlines() if "model.safetensors" in line and "[" not in line])
        == 1
    ), log


TWO = "--api-processes", "2"


def answers(server, key="", verify=False):
    """The status that each API process gives to a request for its
    list of models, on a new connection.
    """
    found = []
    for process in wait_for_processes(server):
        with (
            only(server, process),
            server.client(headers=bearer(key) if key else {}, verify=verify) as client,
        ):
            found.append(client.get("/v1/models").status_code)
    return found


def test_reloads_of_the_class_head_alone_answer_every_classification(tmp_path):
    directory = shapes.save(tmp_path / "changing")
    config = replace(shapes.SHAPES, mirrored=False)
    image = small_models.images(config, 1)[0].reshape(config.image_shape)
    said = {}  # by the file of the head
    files = []
    for name, seed in (("first", 0), ("second", 1)):
        save_class_head(small_models.class_head(config, seed), directory)
        result = load(directory, device="cpu").classify(image)
        said[name] = dict(zip(result.class_names, result.posterior[0].tolist(), strict=True))
        files.append((directory / CLASS_HEAD).read_bytes())
    (directory / CLASS_HEAD).unlink()
    found = []
    sent = {"image": text(encode(image))}
    ended = threading.Event()

    def ask(server):
        with server.client(headers=bearer(KEY)) as client:
            while not ended.is_set():
                answer = client.post("/v1/images/classifications", json=sent)
                assert answer.status_code == 200, answer.text
                (one,) = answer.json()["data"]
                by_head = [
                    name for name, posterior in said.items() if posterior == one["posterior"]
                ]
                assert answer.json()["read_by"] == ("head" if by_head else "bits")
                found.append(by_head[0] if by_head else "bits")

    with serve(directory, *TWO, "--api-key", KEY) as server, ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask, server) for _ in range(4)]
        try:
            with server.client(headers=bearer(KEY)) as client:
                for head in (files[0], None, files[1]):
                    if head is None:
                        (directory / CLASS_HEAD).unlink()
                    else:
                        (directory / CLASS_HEAD).write_bytes(head)
                    assert wait_for(lambda: reload_of(client), "a reload") == 200
                    most = len(found) + 8
                    wait_for(partial(has_asked, found, most, asking), "classifications")
        finally:
            ended.set()
        for each in asking:
            each.result()
    assert {*found} == {"first", "second", "bits"}


def has_asked(found, most, asking):
    """Whether so many answers are there, or one of those who ask has failed."""
    return len(found) > most or any(each.done() for each in asking)


def reload_of(client):
    """The status of a reload; None while another one is in progress."""
    answer = client.post(RELOAD)
    return None if "reload_in_progress" in answer.text else answer.status_code


def test_both_use_a_renewed_certificate(grey_directory, grey, tmp_path):
    cert = tmp_path / "now/cert.pem"
    key = tmp_path / "now/key.pem"
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        write_certificate(tmp_path / name / "cert.pem", tmp_path / name / "key.pem", name)
    (tmp_path / "now").symlink_to("first")
    with serve(grey_directory, *TWO, "--tls-cert", str(cert), "--tls-key", str(key)) as server:
        for process in wait_for_processes(server):
            with (
                only(server, process),
                server.client(verify=ssl.create_default_context(cafile=str(cert))) as client,
            ):
                assert_paints(client, grey)
        (tmp_path / "next").symlink_to("second")
        (tmp_path / "next").replace(tmp_path / "now")  # both files at once
        trusting = ssl.create_default_context(cafile=str(cert))
        wait_for(lambda: renewed(server, trusting), "the second certificate in both processes")
        wait_for(lambda: have_read(server), "three lines about the files")
        # A process that ends beside a key that does not fit is replaced by one
        # with the certificate of the others.
        write_certificate(tmp_path / "other.pem", key, "other")
        replace_one(server)
        assert answers(server, verify=trusting) == [200, 200]


def have_read(server):
    """Whether both processes, and the one that starts them, have read the changed files: each once,
    if those changed at once, and were not read half written."""
    return server.log_text.count(" again") >= 3


def replace_one(server):
    """Kill an API process once it is logged that a file is broken, and
    return when another one has its place.
    """
    server.wait_for_log("the previous content stays in use")
    first, _ = wait_for_processes(server)
    os.kill(first, signal.SIGKILL)
    wait_for(
        lambda: first not in (now := server.api_processes()) and len(now) == 2, "another process"
    )


def renewed(server, trusting):
    try:
        return answers(server, verify=trusting) == [200, 200]
    except httpx.ConnectError as error:  # a process that still has the first certificate
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return False
        raise


def test_both_serve_a_unix_socket_and_read_the_keys_again(grey_directory, tmp_path):
    path = tmp_path / "scanline.sock"
    keys = tmp_path / "keys"
    keys.write_text("studio sk-first\n")
    with serve(
        grey_directory, *TWO, "--unix-socket", str(path), "--api-keys-file", str(keys)
    ) as server:
        assert answers(server) == [401, 401]
        assert answers(server, "sk-first") == [200, 200]
        (tmp_path / "next").write_text("studio sk-second\n")
        (tmp_path / "next").replace(keys)
        wait_for(
            lambda: answers(server, "sk-second") == [200, 200], "the second key in both processes"
        )
        assert answers(server, "sk-first") == [401, 401]
        wait_for(lambda: have_read(server), "three lines about the files")
        # A process that ends beside a broken file is replaced by one with the keys of the others.
        keys.write_text("studio\n")
        replace_one(server)
        assert answers(server, "sk-second") == [200, 200]
    assert not path.exists()
