"""Two API processes behind TLS and on a unix socket: each reads the certificate and the keys again when they change."""

import os
import signal
import ssl
from pathlib import Path

import httpx
import numpy as np

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.server.engine.remote.conftest import only, wait_for_processes
from tests.support.pictures import painted
from tests.support.server.infrastructure.certificates import write_certificate
from tests.support.server.running_server import Server, serve
from tests.support.server.shared_servers import bearer
from tests.support.waiting import wait_for

TWO = "--api-processes", "2"
URL, REQUEST = "/v1/images/generations", {"n": 3, "seed": 7}


def answers(server: Server, key: str = "", verify: ssl.SSLContext | bool = False) -> list[int]:
    """The status that each API process gives to a request for its list of models, on a new connection."""
    found = []
    for process in wait_for_processes(server):
        with only(server, process), server.client(headers=bearer(key) if key else {}, verify=verify) as client:
            found.append(client.get("/v1/models").status_code)
    return found


def test_both_speak_https_and_use_a_renewed_certificate(
    grey_directory: Path, grey: Transformer, tmp_path: Path
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    write_certificate(cert, key, "first")
    with serve(grey_directory, *TWO, "--tls-cert", str(cert), "--tls-key", str(key)) as server:
        expected = paint(grey, 3, seed=7).images
        for process in wait_for_processes(server):
            with only(server, process), server.client(verify=ssl.create_default_context(cafile=str(cert))) as client:
                posted = painted(client.post(URL, json=REQUEST).json())
            np.testing.assert_array_equal(posted.reshape(3, -1), expected)
        write_certificate(cert, key, "second")
        trusting = ssl.create_default_context(cafile=str(cert))
        wait_for(lambda: renewed(server, trusting), "the second certificate in both processes")
        wait_for(lambda: have_read(server), "three lines about the files")

        # A process that ends beside a key that does not fit is replaced by one with the certificate of the others.
        write_certificate(tmp_path / "other.pem", key, "other")
        replace_one(server)
        assert answers(server, verify=trusting) == [200, 200]


def have_read(server: Server) -> bool:
    """Whether both processes, and the one that starts them, have read the changed files."""
    return "".join(server.log).count(" again") >= 3


def replace_one(server: Server) -> None:
    """Kill an API process once it is logged that a file is broken, and return when another one has its place."""
    wait_for(lambda: "the previous content stays in use" in "".join(server.log), "a line about the file")
    first, _ = wait_for_processes(server)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: first not in (now := server.api_processes()) and len(now) == 2, "another process")


def renewed(server: Server, trusting: ssl.SSLContext) -> bool:
    try:
        return answers(server, verify=trusting) == [200, 200]
    except httpx.ConnectError as error:  # a process that still has the first certificate
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return False
        raise


def test_both_serve_a_unix_socket_and_read_the_keys_again(grey_directory: Path, tmp_path: Path) -> None:
    path, keys = tmp_path / "scanline.sock", tmp_path / "keys"
    keys.write_text("studio sk-first\n")
    with serve(grey_directory, *TWO, "--unix-socket", str(path), "--api-keys-file", str(keys)) as server:
        assert answers(server) == [401, 401]
        assert answers(server, "sk-first") == [200, 200]
        keys.write_text("studio sk-second\n")
        wait_for(lambda: answers(server, "sk-second") == [200, 200], "the second key in both processes")
        assert answers(server, "sk-first") == [401, 401]
        wait_for(lambda: have_read(server), "three lines about the files")

        # A process that ends beside a broken file is replaced by one with the keys of the others.
        keys.write_text("studio\n")
        replace_one(server)
        assert answers(server, "sk-second") == [200, 200]
    assert not path.exists()
