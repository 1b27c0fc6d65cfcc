"""The proxies of deploy/proxies in front of a real server: images, events at once, websockets, and whose they are."""

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.support.pictures import painted
from tests.support.server.infrastructure.nginx_proxy import accepts, free_port
from tests.support.server.running_server import Server, serve
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE, wait_for

FOLDER = Path(__file__).parents[2] / "deploy/proxies"
PATH = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"
COMMANDS = {  # file: the command, to which its path is added
    "nginx.conf": ["nginx", "-g", "daemon off; pid nginx.pid; error_log stderr;", "-p", ".", "-c"],
    "Caddyfile": ["caddy", "run", "--adapter", "caddyfile", "--config"],
    "haproxy.cfg": ["haproxy", "-f"],
}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(grey_directory: Path) -> Iterator[Server]:
    with serve(grey_directory, "--slots", "32", "--trusted-proxy", "127.0.0.1", "--api-key", "sk-1") as server:
        yield server


@pytest.mark.parametrize("name", COMMANDS)
def test_a_proxy_passes_everything_on(server: Server, tmp_path: Path, grey: Transformer, name: str) -> None:
    program, *arguments = COMMANDS[name]
    if (binary := shutil.which(program, path=PATH)) is None:
        pytest.skip(f"{program} is not installed")
    text, port = (FOLDER / name).read_text(), free_port()
    for old, new in (("127.0.0.1:8000", server.url.removeprefix("http://")), ("8080", str(port))):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / name).write_text(text)
    process = subprocess.Popen([binary, *arguments, str(tmp_path / name)], cwd=tmp_path, env={"HOME": str(tmp_path)})
    try:
        wait_for(lambda: accepts(port) or process.poll() is not None, program)
        url, headers = f"http://127.0.0.1:{port}", {"authorization": "Bearer sk-1", "x-forwarded-for": "192.0.2.7"}
        with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
            wait_for(lambda: client.get("/readyz").status_code == 200, "the server behind the proxy")
            answer = client.post("/v1/images/generations", json={"n": 3, "seed": 7})
            expected = paint(grey, 3, seed=7, temperature=1.0).images.reshape(3, 7, 5)
            np.testing.assert_array_equal(painted(answer.json()), expected)
            body = {"n": 1000, "stream": True, "partial_images": 1}
            with client.stream("POST", "/v1/images/generations", json=body) as events:
                assert next(events.iter_lines()).startswith("event: "), "long before the last image is done"
        with connected(url, additional_headers=headers) as websocket:
            images = websocket.paint(type="generate", n=3, seed=7).images()
            np.testing.assert_array_equal(images.reshape(expected.shape), expected)
        assert not [line for line in server.log if "client=192.0.2.7" in line], "a client cannot choose its address"
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b" 200 " in connection.recv(65536)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
