"""A service behind nginx as deployed, and one whose replicas have different models: on a real cluster."""

from pathlib import Path

import httpx
import numpy as np

from tests.support.cluster.cluster_service import ALLOWED, Service, offline
from tests.support.pictures import encode, painted, text
from tests.support.server.infrastructure.nginx_proxy import nginx_before, runs_here
from tests.support.server.running_server import PATIENCE
from tests.support.server.sse_reader import images, post_for_events
from tests.support.server.websocket_client import connected

if runs_here():  # nginx is installed

    def test_everything_passes_nginx_and_serves_own_options_do_not(service: Service, tmp_path: Path) -> None:
        upstream = service.url.removeprefix("http://")
        with (
            nginx_before(upstream, tmp_path) as proxy,
            httpx.Client(base_url=proxy.url, timeout=PATIENCE, headers=ALLOWED) as client,
        ):
            answer = client.post("/v1/images/generations", json={"n": 3, "seed": 7})
            assert np.array_equal(painted(answer.json()), offline(3, 7))
            events = post_for_events(client, "/v1/images/generations", n=2, seed=7, partial_images=2)
            assert np.array_equal(images(events), offline(2, 7))
            fields = {"image": text(encode(offline(1, 9)[0])), "keep_rows": 14}
            assert client.post("/v1/images/edits", json=fields).status_code == 200
            with connected(proxy.url, additional_headers=ALLOWED) as websocket:
                job = websocket.paint(type="generate", n=4, seed=7)
            assert np.array_equal(job.images().reshape(4, 28, 28), offline(4, 7))
            # Serve ends a request after as long as its client says; nginx does not let a client say it.
            late = {"x-request-timeout-seconds": "0.001"}
            fields = {"n": 100, "seed": 7}
            behind = client.post("/v1/images/generations", json=fields, headers=late)
            assert np.array_equal(painted(behind.json()), offline(100, 7))
            direct = httpx.post(f"{service.url}/v1/images/generations", json=fields, headers={**ALLOWED, **late})
            assert direct.status_code == 408
            assert httpx.get(f"{service.url}/-/routes").status_code == 200
            assert client.get("/-/routes").status_code == 404
