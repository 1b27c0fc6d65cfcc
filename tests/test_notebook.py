"""docs/notebook.ipynb: its cells run without a notebook, and its pictures and numbers are those of today's model."""

import ast
import base64
import contextlib
import io
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scanline.model.formats.checkpoint import save_model
from tests.support import small_models
from tests.support.pictures import decode

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"
MODEL, N = "mnist-small", 16  # as its first cell has them


def run(model: str, n: int) -> Iterator[tuple[list[dict[str, Any]], str, object]]:
    """Run the cells with a model and n images; yield what the notebook shows of each, what it prints, and its value."""
    names: dict[str, object] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        source = "".join(cell["source"]).replace(f"N = {N}", f"N = {n}").replace(MODEL, model)
        if cell["cell_type"] != "code" or ("IPython" in source and not find_spec("IPython")):
            continue
        *statements, last = ast.parse(source).body
        printed, value = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            if isinstance(last, ast.Expr):
                exec(compile(ast.Module(statements, []), "cell", "exec"), names)
                value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            else:
                exec(source, names)
        yield cell["outputs"], printed.getvalue(), value


def test_every_cell_runs_and_the_notebook_has_no_errors(tmp_path: Path) -> None:
    config = small_models.config(
        height=28, width=28, layers=1, predicts="categorical", classes=small_models.CLASSES["classes"]
    )
    save_model(small_models.model(config), tmp_path / "model")
    shown = [outputs for outputs, _, _ in run(str(tmp_path / "model"), 2)]
    assert sum("image/png" in output.get("data", ()) for outputs in shown for output in outputs) == 6
    assert not any(output["output_type"] == "error" for outputs in shown for output in outputs)


@pytest.mark.slow
def test_its_pictures_and_numbers_are_those_that_its_cells_make() -> None:
    for outputs, printed, value in run(MODEL, N):
        texts = ["".join(output["text"]) for output in outputs if output.get("name") == "stdout"]
        assert "".join(texts) == printed
        pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", ())]
        assert bool(pictures) == hasattr(value, "_repr_png_")
        for picture in pictures:
            np.testing.assert_array_equal(decode(base64.b64decode(picture)), decode(value._repr_png_()))  # type: ignore[attr-defined]
