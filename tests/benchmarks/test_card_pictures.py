"""The pictures of a card are those that its commands paint."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks import card_pictures
from scanline.model.defaults import Defaults
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.images.contact_sheet import UNPAINTED
from scanline.model.sampling.messages import GenerateRequest
from scanline.model.tasks.offline import paint_request
from tests.support import small_models

DIGITS = small_models.config(**small_models.VARIANTS["strokes"], **small_models.CLASSES)
COLOURS = small_models.config(**small_models.VARIANTS["pixels"])


def test_every_picture_is_written_and_samples_are_those_of_seed_7(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_models.model(DIGITS)
    save_model(model, tmp_path / "digits")
    (tmp_path / "digits/generation_config.json").write_text('{"class": "any", "guidance": 2, "temperature": 0.5}')
    monkeypatch.setattr(sys, "argv", ["card_pictures", str(tmp_path / "digits"), "--into", str(tmp_path / "new")])
    card_pictures.main()
    names = {"samples.png", "completions.png", "classes.png", "any.png", "guided.png"}
    assert {path.name for path in (tmp_path / "new").iterdir()} == names
    by_default = GenerateRequest(0, 64, 7, 0.5, guidance=2, drawn_classes=len(DIGITS.classes))
    for name, request in (("samples.png", GenerateRequest(0, 64, 7)), ("any.png", by_default)):
        painted = paint_request(load_model(tmp_path / "digits"), request).images.reshape(8, 8, 4, 5)
        with Image.open(tmp_path / "new" / name) as sheet:
            assert np.array_equal(sheet, painted.transpose(0, 2, 1, 3).reshape(32, 40))


def test_completions_keep_the_upper_half_and_a_model_that_cannot_be_guided_has_no_pictures_of_it(
    tmp_path: Path,
) -> None:
    card_pictures.paint_pictures(small_models.model(COLOURS), Defaults(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"samples.png", "completions.png"}
    with Image.open(tmp_path / "completions.png") as sheet:
        rows = np.asarray(sheet).reshape(6, 4, 10, 5, 3).swapaxes(1, 2)  # [originals, columns, H, W, 3]
    assert (rows[:, 0, 2:] == UNPAINTED).all()
    for column in range(9):
        assert np.array_equal(rows[:, column, :2], rows[:, 9, :2])
    assert any((rows[:, column, 2:] != rows[:, 9, 2:]).any() for column in range(1, 9))
