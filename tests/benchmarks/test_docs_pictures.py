"""The README's picture of completions shows known pixels unchanged and hidden ones grey, then painted."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks import docs_pictures
from benchmarks.docs_pictures import BAND, GAP, SCALE, SQUARE, WHITE
from scanline.model import zoo
from scanline.model.contact_sheet import UNPAINTED
from scanline.model.formats.checkpoint import load_model

CELL = 28 + 2 * GAP


def test_each_completion_keeps_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_pictures, "DIGITS", 1)
    monkeypatch.setattr(docs_pictures, "PARTICLES", (1, 2))
    docs_pictures.paint_particles(load_model(zoo.find(zoo.DEFAULT)), tmp_path)
    with Image.open(tmp_path / "particles.png") as picture:
        sheet = np.asarray(picture)[::SCALE, ::SCALE]
    assert sheet.shape == (CELL, 8 * CELL + 4 * GAP)
    assert (sheet[:, 4 * CELL : 4 * CELL + 4 * GAP] == WHITE).all()
    for half, hidden in ((sheet[:, : 4 * CELL], BAND), (sheet[:, -4 * CELL :], SQUARE)):
        cells = half.reshape(1, CELL, 4, CELL).swapaxes(1, 2)[:, :, GAP:-GAP, GAP:-GAP]  # [digits, columns, H, W]
        known = np.ones((28, 28), bool)
        known[hidden] = False
        for original, occluded, *completions in cells:
            assert (occluded[~known] == UNPAINTED).all()
            assert all((image[known] == original[known]).all() for image in (occluded, *completions))
            assert any((image[~known] != original[~known]).any() for image in completions)
