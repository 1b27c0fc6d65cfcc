"""README.md, done as it says: its blocks in one shell, one after another, in a fresh clone."""

import re
import socket
import subprocess
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = ("localhost", 8000)
INSTALLED = "while [ ! -x .venv/bin/scanline ]; do sleep 1; kill -0 %1; done\n"


@pytest.mark.slow
def test_every_block_works_as_printed(tmp_path: Path) -> None:
    with socket.socket() as probe:
        if not probe.connect_ex(ADDRESS):
            pytest.skip("something is served on port 8000")
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path / "scanline")], check=True)
    lines = ["set -e", "trap 'kill %1; wait' EXIT"]
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    for kind, text in sorted(blocks, key=lambda block: block[0] == "python"):  # the first one stands before the install
        if "serve" in text.splitlines()[0]:
            text = text.rstrip() + " &\n" + INSTALLED  # a reader goes on in another terminal
        if not text.rstrip().endswith("pytest"):  # .ci/run runs that one
            lines.append(text if kind == "sh" else f"python - <<'END'\n{text}END")
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], cwd=tmp_path / "scanline", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sizes = [Image.open(tmp_path / "scanline" / f"{name}.png").size for name in ("digits", "digit", "completed")]
    assert sizes[1] == (28, 28)
    assert sizes[0][0] > sizes[2][0] > sizes[1][0]
    for told in ('"posterior":', '"bits_per_dim":', "event: image_generation.completed"):
        assert told in done.stdout
