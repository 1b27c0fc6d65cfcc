"""The API of an ingress, behind the proxy of Serve, and `scanline
sample --cluster` against its service.
"""

import io
import json
from pathlib import Path

import httpx
import numpy as np
import pytest

from scanline.model.sampling.base.messages import Scored, ScoreRequest
from scanline.server.engine.remote.over_ray import Route
from tests.support.cluster.cluster_service import ALLOWED, offline
from tests.support.commands import Ran, in_a_process
from tests.support.pictures import decode, painted
from tests.support.server.infrastructure.nginx_proxy import nginx_before, runs_here
from tests.support.server.running_server import PATIENCE
from tests.support.server.sse_reader import images, post_for_events
from tests.support.server.websocket_client import connected


@pytest.fixture
def client(service):
    with service.client() as client:
        yield client


def test_only_probes_need_no_key_and_name_no_model_without_one(service, client):
    assert httpx.get(f"{service.url}/healthz").json() == {"status": "ok"}
    assert httpx.get(f"{service.url}/readyz").json() == {"status": "ready"}
    assert client.get("/readyz").json() == {"status": "ready", "models": {"mnist-small": "ready"}}
    answer = httpx.get(f"{service.url}/v1/models")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


def test_a_seed_gives_the_same_images_as_offline(client):
    answer = client.post("/v1/images/generations", json={"n": 3, "seed": 7})
    assert answer.status_code == 200, answer.text
    assert np.array_equal(painted(answer.json()), offline(3, 7))
    events = post_for_events(client, "/v1/images/generations", n=2, seed=7, partial_images=2)
    assert np.array_equal(images(events), offline(2, 7))
    assert len(events) == 2 * 3


def test_one_request_is_painted_by_all_replicas(service, client):
    before = service.painted()
    answer = client.post(
        "/v1/images/generations", json={"n": 96, "seed": 8}, headers={"accept": "application/x-npy"}
    )
    assert np.array_equal(np.load(io.BytesIO(answer.content)), offline(96, 8))
    service.wait_until_idle()
    assert [now - old for now, old in zip(service.painted(), before, strict=True)] == [
        48 * 784,
        48 * 784,
    ]


def test_a_websocket_ends_with_the_same_images(service):
    with connected(service.url, additional_headers=ALLOWED) as painter:
        job = painter.paint(n=40, seed=7, state=[0, 0])
    assert np.array_equal(job.images().reshape(40, 28, 28), offline(40, 7))
    assert job.messages[-1]["type"] == "done"


def test_errors_the_page_and_the_schema_have_their_shape(client, service):
    answer = client.post("/v1/images/generations", json={"n": 0})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (
        400,
        "invalid_request_error",
        "n",
    )
    assert client.get("/nowhere").json()["error"]["message"]
    assert "<title>Scanline</title>" in client.get("/").text
    assert "/v1/images/generations" in client.get("/openapi.json").json()["paths"]
    assert client.get("/v1/models").json()["data"][0]["id"] == "mnist-small"
    assert client.get("/v1/models/mnist-small").json()["backend"]
    client.post("/v1/images/generations", json={"n": 1})
    metrics = client.get("/metrics").text
    assert 'scanline_engine_up{model_name="mnist-small"} 1.0' in metrics
    labels = 'finished_reason="finished",model_name="mnist-small",operation="paint"'
    assert f"scanline_request_success_total{{{labels}}}" in metrics


def test_a_full_queue_answers_429_with_retry_after(client):
    # of both replicas
    assert 'scanline_batch_slots{model_name="mnist-small"} 256.0' in client.get("/metrics").text
    with client.stream("POST", "/v1/images/generations", json={"n": 10_000, "stream": True}):
        answer = client.post("/v1/images/generations", json={"n": 1_000})
    assert (answer.status_code, answer.json()["error"]["type"]) == (429, "rate_limit_error")
    assert int(answer.headers["retry-after"]) > 0


def test_disconnected_clients_free_their_slots(service, client):
    with client.stream(
        "POST", "/v1/images/generations", json={"n": 2_000, "stream": True}
    ) as answer:
        next(answer.iter_lines())
    for _ in range(20):
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/images/generations", json={"n": 200}, timeout=0.02)
    service.wait_until_idle()
    assert len(client.post("/v1/images/generations", json={"n": 200}).json()["data"]) == 200


def test_a_shard_may_be_larger_than_grpcs_own_limit(service):
    run = service.handle().options(method_name="run", stream=True, _by_reference=False)
    command = ScoreRequest(0, (bytes(784),), client="a" * 5_000_000)
    assert any(
        isinstance(event, Scored)
        for events in run.remote(command, route=Route())
        for event in events
    )


def sample(out: Path, *options: object) -> Ran:
    import ray

    return in_a_process(
        "sample", "--cluster", ray.get_runtime_context().gcs_address, "--out", out, *options
    )


def pictures(folder: Path) -> np.ndarray:
    return np.stack([decode(path.read_bytes()) for path in sorted(folder.glob("*.png"))])


def test_the_command_paints_and_completes_a_folder(service, tmp_path):
    first = sample(tmp_path / "samples", "-n", 120, "--seed", 7, "--json")
    assert first.status == 0, first.err
    assert len(json.loads(first.out)["bits_per_dim"]) == 120
    assert np.array_equal(pictures(tmp_path / "samples"), offline(120, 7))
    for index in (3, 50, 119):
        (tmp_path / "samples" / f"{index:03}.png").unlink()
    kept = (tmp_path / "samples" / "004.png").stat().st_mtime_ns
    again = sample(tmp_path / "samples", "-n", 120)
    assert (again.status, "3 of them painted in this run" in again.out) == (0, True), again
    assert np.array_equal(pictures(tmp_path / "samples"), offline(120, 7))
    assert (tmp_path / "samples" / "004.png").stat().st_mtime_ns == kept


def test_the_command_is_refused_a_model_that_is_not_served(service, tmp_path):
    guided = sample(tmp_path / "guided", "-n", 3, "--guidance", 2)
    assert (guided.status, guided.err) == (
        2,
        "scanline: guidance needs a class, or a prompt that names one.\n",
    )
    sentence = (
        "scanline: --model cifar10-small: the cluster does not serve it; it serves mnist-small\n"
    )
    ran = sample(tmp_path / "out", "--model", "cifar10-small")
    assert (ran.status, ran.err) == (2, sentence)


if runs_here():  # nginx is installed

    def test_serves_own_options_do_not_pass_nginx(service, tmp_path):
        upstream = service.url.removeprefix("http://")
        with (
            nginx_before(upstream, tmp_path) as proxy,
            httpx.Client(base_url=proxy.url, timeout=PATIENCE, headers=ALLOWED) as client,
        ):
            with connected(proxy.url, additional_headers=ALLOWED) as websocket:
                job = websocket.paint(n=4, seed=7)
            assert np.array_equal(job.images().reshape(4, 28, 28), offline(4, 7))
            # Serve ends a request after as long as its client says;
            # nginx does not let a client say it.
            late = {"x-request-timeout-seconds": "0.001"}
            fields = {"n": 100, "seed": 7}
            behind = client.post("/v1/images/generations", json=fields, headers=late)
            assert np.array_equal(painted(behind.json()), offline(100, 7))
            direct = httpx.post(
                f"{service.url}/v1/images/generations", json=fields, headers={**ALLOWED, **late}
            )
            assert direct.status_code == 408
            assert httpx.get(f"{service.url}/-/routes").status_code == 200
            assert client.get("/-/routes").status_code == 404
