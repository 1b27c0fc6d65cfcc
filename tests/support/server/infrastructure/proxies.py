"""The proxies of deploy/proxies, each with its configuration in
front of servers of this machine.
"""

import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.server.infrastructure.nginx_proxy import free_port, running

FOLDER = Path(__file__).parents[4] / "deploy/proxies"
PATH = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"
COMMANDS = {  # file: the command, to which its path is added
    "nginx.conf": ["nginx", "-g", "daemon off; pid nginx.pid; error_log stderr;", "-p", ".", "-c"],
    "Caddyfile": ["caddy", "run", "--adapter", "caddyfile", "--config"],
    "haproxy.cfg": ["haproxy", "-f"],
}
ADDRESS = "127.0.0.1:8000"  # of the server in these files
SERVER_LINE = re.compile(rf"^ *server .*{ADDRESS}.*$", re.MULTILINE)


@contextmanager
def proxy_before(name, addresses, folder, edit=str):
    """Yield the URL of a proxy in front of servers (HOST:PORT), with no other change of its file
    than addresses and what `edit` does."""
    program, *arguments = COMMANDS[name]
    binary = shutil.which(program, path=PATH)
    if binary is None:
        pytest.skip(f"{program} is not installed")
    port = free_port()
    file = folder / name
    file.write_text(edit(configured(name, addresses, port)))
    with running([binary, *arguments, str(file)], port, folder):
        yield f"http://127.0.0.1:{port}"


def configured(name, addresses, port):
    """Return the file with another port, and with the line of the server once for each address."""
    conf = (FOLDER / name).read_text()
    assert "8080" in conf
    assert ADDRESS in conf
    conf = conf.replace("8080", str(port))
    if name == "Caddyfile":  # all on one line
        return conf.replace(ADDRESS, " ".join(addresses))
    line = SERVER_LINE.findall(conf)[0]
    lines = [
        line.replace(ADDRESS, address).replace(" first ", f" server-{number} ")
        for number, address in enumerate(addresses)
    ]
    return conf.replace(line, "\n".join(lines))
