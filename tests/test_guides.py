"""README.md, docs/api.md, docs/train.md and docs/notebook.ipynb, done as they say."""

import ast
import base64
import contextlib
import io
import json
import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from scanline.model.formats.checkpoint import save_model
from tests.support import small_models
from tests.support.commands import done
from tests.support.pictures import decode
from tests.support.server.json_requests import GENERATIONS
from tests.support.server.running_server import serve

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INSTALLED = "while [ ! -x .venv/bin/scanline ]; do sleep 1; kill -0 %1; done\n"
TRAIN = BLOCK.findall((ROOT / "docs" / "train.md").read_text())
LETTERS = str(ROOT / "docs" / "letters.py")
COMMANDS = [line for kind, text in TRAIN if kind == "sh" for line in text.splitlines()]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
# as its first cell has them
MODEL = "mnist-small"
N = 16


@pytest.mark.slow
def test_every_block_of_the_readme_works_in_a_fresh_clone(tmp_path):
    with socket.socket() as probe:
        if not probe.connect_ex(("localhost", 8000)):
            pytest.skip("something is served on port 8000")
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path / "scanline")], check=True)
    # -m: the server is in a group of its own, which is ended whole
    lines = ["set -em", "trap 'kill %1; wait' EXIT"]
    for kind, text in BLOCK.findall((ROOT / "README.md").read_text()):
        if "serve" in text.splitlines()[0]:
            text = text.rstrip() + " &\n" + INSTALLED  # a reader goes on in another terminal
        if not text.rstrip().endswith("pytest"):  # .ci/run runs that one
            lines.append(text if kind == "sh" else f"python - <<'END'\n{text}END")
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=tmp_path / "scanline",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sizes = [
        Image.open(tmp_path / "scanline" / f"{name}.png").size
        for name in ("digits", "digit", "completed")
    ]
    assert sizes[1] == (28, 28)
    assert sizes[0][0] > sizes[2][0] > sizes[1][0]
    for told in ('"posterior":', '"bits_per_dim":', "event: image_generation.completed"):
        assert told in done.stdout


def test_the_examples_of_the_api_page_run_in_their_order(tmp_path):
    config = small_models.config(
        height=28, width=28, predicts="categorical", **small_models.CLASSES
    )
    save_model(small_models.model(config), tmp_path / "mnist-small")
    blocks = BLOCK.findall((ROOT / "docs/api.md").read_text())
    with serve(tmp_path / "mnist-small") as server:
        for kind, text in blocks:
            address = server.url.removeprefix("http://")
            text = text.replace("localhost:8000", address).replace("curl -s", "curl -fs")
            command = ["bash", "-ec", text] if kind == "sh" else [sys.executable, "-c", text]
            subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    pictures = [np.asarray(Image.open(tmp_path / name)) for name in ("digit.png", "again.png")]
    assert_array_equal(*pictures)


def test_from_fonts_to_a_server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = "localhost:8000/v1/images/generations"
    programs = [
        "python docs/letters.py",
        "scanline train",
        "scanline serve",
        f"curl {url}",
        *2 * ("scanline train",),
    ]
    assert [" ".join(command.split()[:2]) for command in COMMANDS] == programs
    draw, learn, start, paint, resume, _ = COMMANDS  # the last one's is in cli/train
    short = draw.replace(" 6000", " 40").split()
    assert short != draw.split()
    subprocess.run([sys.executable, LETTERS, *short[2:]], check=True, capture_output=True)
    assert len(list(Path("letters").glob("*.png"))) == 40
    short = learn.replace("--minutes 20", "--updates 2").split()
    assert short != learn.split()
    assert "pictures of 28x28 grey to train on" in done(
        *short[1:], "--no-compile", "--from", "none"
    )
    done(*resume.split()[1:], "--no-compile")
    body = re.search(r"-d '(.*?)'", paint)
    assert start.split()[2:] == ["--model", "letters-model"]
    with serve(Path("letters-model")) as server, server.client() as client:
        answer = client.post(
            GENERATIONS, json=json.loads(body[1]) | {"n": 2}, headers={"accept": "image/png"}
        )
        assert answer.status_code == 200
        assert Image.open(io.BytesIO(answer.content)).size == (2 * 28, 28)


def test_the_letters_are_drawn_without_any_font(tmp_path):
    command = [sys.executable, LETTERS, "letters", "3"]
    drawn = subprocess.run(
        command, cwd=tmp_path, env={"PATH": ""}, check=True, capture_output=True, text=True
    )
    assert drawn.stdout == "3 letters of 1 fonts in letters\n"
    extremes = [Image.open(path).getextrema() for path in sorted((tmp_path / "letters").iterdir())]
    assert all(low == 0 and high > 150 for low, high in extremes)


def cells(model, n):
    """Run the cells of the notebook with a model and n images; yield what each
    shows there, prints, and its value.
    """
    names = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        source = "".join(cell["source"]).replace(f"N = {N}", f"N = {n}").replace(MODEL, model)
        if cell["cell_type"] != "code" or ("IPython" in source and not find_spec("IPython")):
            continue
        *statements, last = ast.parse(source).body
        printed = io.StringIO()
        value = None
        with contextlib.redirect_stdout(printed):
            if isinstance(last, ast.Expr):
                exec(compile(ast.Module(statements, []), "cell", "exec"), names)
                value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            else:
                exec(source, names)
        yield cell["outputs"], printed.getvalue(), value


def test_every_cell_of_the_notebook_runs_and_it_has_no_errors(tmp_path):
    config = small_models.config(
        height=28, width=28, layers=1, predicts="categorical", **small_models.CLASSES
    )
    save_model(small_models.model(config), tmp_path / "model")
    shown = [outputs for outputs, _, _ in cells(str(tmp_path / "model"), 2)]
    assert (
        sum("image/png" in output.get("data", ()) for outputs in shown for output in outputs) == 6
    )
    assert not any(output["output_type"] == "error" for outputs in shown for output in outputs)


@pytest.mark.slow
def test_what_the_notebook_shows_is_what_its_cells_make():
    for outputs, printed, value in cells(MODEL, N):
        assert (
            "".join(
                ["".join(output["text"]) for output in outputs if output.get("name") == "stdout"]
            )
            == printed
        )
        pictures = [
            output["data"]["image/png"]
            for output in outputs
            if "image/png" in output.get("data", ())
        ]
        assert bool(pictures) == hasattr(value, "_repr_png_")
        for picture in pictures:
            assert_array_equal(decode(base64.b64decode(picture)), decode(value._repr_png_()))
