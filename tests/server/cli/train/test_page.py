"""docs/train.md, done as it says, with fewer letters and updates: letters from fonts, a model, a server that paints."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from PIL import Image

from tests.support.commands import done
from tests.support.server.running_server import serve

PAGE = (Path(__file__).parents[4] / "docs" / "train.md").read_text()
SCRIPT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def test_from_fonts_to_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(SCRIPT) == 1
    Path("letters.py").write_text(SCRIPT[0])
    assert [command.split()[:2] for command in COMMANDS] == [
        ["python", "letters.py"],
        ["scanline", "train"],
        ["scanline", "serve"],
        ["curl", "localhost:8000/v1/images/generations"],
        ["scanline", "train"],
    ]
    draw, learn, start, paint, resume = COMMANDS
    short = draw.replace(" 6000", " 40").split()
    assert short != draw.split()
    subprocess.run([sys.executable, *short[1:]], check=True, capture_output=True)
    assert len(list(Path("letters").glob("*.png"))) == 40

    short = learn.replace("--minutes 20", "--updates 2").split()
    assert short != learn.split()
    assert "pictures of 28x28 grey to train on" in done(*short[1:], "--no-compile", "--from", "none")
    done(*resume.split()[1:], "--no-compile")

    body = re.search(r"-d '(.*?)'", paint)
    assert body
    assert start.split()[2:] == ["--model", "letters-model"]
    with serve(Path("letters-model")) as server:
        answer = httpx.post(
            f"{server.url}/v1/images/generations",
            json=json.loads(body[1]) | {"n": 2},
            headers={"accept": "image/png"},
        )
        assert answer.status_code == 200
        assert Image.open(io.BytesIO(answer.content)).size == (2 * 28, 28)


def test_its_letters_are_drawn_without_any_font(tmp_path: Path) -> None:
    (tmp_path / "letters.py").write_text(SCRIPT[0])
    command = [sys.executable, "letters.py", "letters", "3"]
    drawn = subprocess.run(command, cwd=tmp_path, env={"PATH": ""}, check=True, capture_output=True, text=True)
    assert drawn.stdout == "3 letters of 1 fonts in letters\n"
    extremes = [Image.open(path).getextrema() for path in sorted((tmp_path / "letters").iterdir())]
    assert all(low == 0 and high > 150 for low, high in extremes)  # type: ignore[operator]
