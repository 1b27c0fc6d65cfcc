"""nginx with the configuration of deploy/kubernetes/ray, in front of a server of this machine."""

import shutil
import socket
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import PATIENCE, wait_for

CONF = Path(__file__).parents[4] / "deploy/kubernetes/ray/nginx.conf"
BINARY = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
# Debian's; others have it built in
STREAM_MODULE = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
SHORT = {  # seconds and limits that a test can wait for and reach
    "client_header_timeout 10s": "client_header_timeout 2s",
    "client_body_timeout 30s": "client_body_timeout 2s",
    "send_timeout 60s": "send_timeout 2s",
    "proxy_upload_rate 4m": "proxy_upload_rate 64m",
    "limit_conn connections_of_address 512": "limit_conn connections_of_address 40",
    "limit_conn requests_of_address 256": "limit_conn requests_of_address 8",
    "limit_conn websockets_of_address 64": "limit_conn websockets_of_address 4",
}


def runs_here():
    if BINARY is None:
        return False
    built = subprocess.run([BINARY, "-V"], capture_output=True, text=True).stderr
    return STREAM_MODULE.exists() or "--with-stream " in f"{built} "


@dataclass
class NginxProxy:
    url: str
    log: Path  # its access log: refusals


@contextmanager
def nginx_before(upstream, folder, **changes):
    """nginx in front of `upstream` (HOST:PORT) with SHORT limits,
    for as long as the context lasts.
    """
    port = free_port()
    conf = folder / "nginx.conf"
    conf.write_text(configured(upstream, port, folder, {**SHORT, **changes}))
    command = [str(BINARY), "-c", str(conf), "-p", str(folder), "-g", "daemon off;"]
    with running(command, port, folder):
        yield NginxProxy(f"http://127.0.0.1:{port}", folder / "access.log")


@contextmanager
def running(command, port, folder):
    """A proxy that listens at a port, for as long as the context lasts."""
    process = subprocess.Popen(command, cwd=folder, env={"HOME": str(folder)})
    try:
        wait_for(lambda: accepts(port) or process.poll() is not None, command[0])
        assert process.poll() is None, f"{command[0]} has ended"
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def configured(upstream, port, folder, changes):
    """The configuration with other addresses, paths and limits;
    each text to replace must be there.
    """
    text = CONF.read_text()
    replaced = {
        "scanline-serve-svc:8000": upstream,
        "listen [::]:8080;": "",  # not every machine has IPv6
        "listen 8080": f"listen 127.0.0.1:{port}",
        "127.0.0.1:8081": f"127.0.0.1:{free_port()}",
        "/tmp/": f"{folder}/",
        "/dev/stdout": f"{folder}/access.log",
        "worker_rlimit_nofile 131072;": "user root;",
        "worker_connections 32768": "worker_connections 1024",
        **changes,
    }
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    return f"load_module {STREAM_MODULE};\n{text}" if STREAM_MODULE.exists() else text


def accepts(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
