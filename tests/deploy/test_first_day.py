"""docs/first-day.md: keys, certificate, settings, probes and Prometheus, done as it says, but for
what needs root or systemd.
"""

import re
import subprocess

from PIL import Image

from tests.support.manifests import DEPLOY
from tests.support.server.running_server import Server

PAGE = (DEPLOY.parent / "docs/first-day.md").read_text()
_, FILES, SETTINGS, _, PROBES, ALERTS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
LEFT_OUT = "groupadd() { :; }; chgrp() { :; }; chown() { :; }; systemctl() { :; }\n"
LEFT_OUT += "command -v promtool > /dev/null || promtool() { :; }\n"


def test_the_commands_of_the_first_day_run_in_their_order(tmp_path, grey_directory):
    (tmp_path / "deploy").symlink_to(DEPLOY)
    (tmp_path / "prometheus").mkdir()

    def run(block, port="8000"):
        block = block.replace(" -g scanline-files", "").replace("/etc/", f"{tmp_path}/")
        block = re.sub(r"\bHOST\b", "localhost", block).replace(":8000", f":{port}")
        subprocess.run(["bash", "-euc", LEFT_OUT + block], cwd=tmp_path, check=True)

    run(FILES)
    run(SETTINGS)
    settings = (tmp_path / "scanline.env").read_text().split()
    server = Server(grey_directory, command=["env", *settings])
    try:
        server.wait_until_ready()
        run(PROBES, server.url.rpartition(":")[2])
    finally:
        server.stop()
    assert Image.open(tmp_path / "digits.png").format == "PNG"
    run(ALERTS)
