"""Scripts of benchmarks/ run to their end on tiny models: tables, JSON in the last line,
pictures."""

import random
import re
import sys
from pathlib import Path
from shutil import copyfile

import matplotlib
import numpy as np
from PIL import Image

from benchmarks import card_pictures
from benchmarks.data import letters
from scanline.model.base.sampling_options import Defaults, DrawnLabel
from scanline.model.datasets.folder import about
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.images.contact_sheet import UNPAINTED
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.offline import paint_request
from tests.support import small_models

DIGITS = small_models.config(**small_models.VARIANTS["strokes"], **small_models.CLASSES)
COLOURS = small_models.config(**small_models.VARIANTS["pixels"])


def test_pictures_of_a_card_are_those_of_seed_7(tmp_path, monkeypatch):
    save_model(small_models.model(DIGITS), tmp_path / "digits")
    (tmp_path / "digits/generation_config.json").write_text(
        '{"class": "any", "guidance": 2, "temperature": 0.5}'
    )
    monkeypatch.setattr(
        sys, "argv", ["card_pictures", str(tmp_path / "digits"), "--into", str(tmp_path / "new")]
    )
    card_pictures.main()
    names = {"samples.png", "completions.png", "classes.png", "any.png", "guided.png"}
    assert {path.name for path in (tmp_path / "new").iterdir()} == names
    by_default = GenerateRequest(
        0, 64, 7, temperature=0.5, guidance=2, label=DrawnLabel(len(DIGITS.classes))
    )
    for name, request in (("samples.png", GenerateRequest(0, 64, 7)), ("any.png", by_default)):
        painted = paint_request(load_model(tmp_path / "digits"), request).images.reshape(8, 8, 4, 5)
        with Image.open(tmp_path / "new" / name) as sheet:
            assert np.array_equal(sheet, painted.transpose(0, 2, 1, 3).reshape(32, 40))


def test_completions_keep_the_upper_half_and_a_model_without_guidance_has_no_pictures_of_it(
    tmp_path,
):
    card_pictures.paint_pictures(small_models.model(COLOURS), Defaults(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"samples.png", "completions.png"}
    with Image.open(tmp_path / "completions.png") as sheet:
        # [originals, columns, H, W, 3]
        rows = np.asarray(sheet).reshape(6, 4, 10, 5, 3).swapaxes(1, 2)
    assert (rows[:, 0, 2:] == UNPAINTED).all()
    assert np.array_equal(rows[:, :9, :2], np.repeat(rows[:, 9:, :2], 9, axis=1))
    assert (rows[:, 1:9, 2:] != rows[:, 9:, 2:]).any()


def test_letters_of_a_font_stand_on_one_baseline_and_those_that_look_alike_are_left_out(
    tmp_path,
):
    file = str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf")
    assert set(letters.CHARACTERS) - set(letters.readable(file)) == {"I", "l"}
    first, again = (letters.drawn(file, "o", random.Random(3)) for _ in range(2))
    assert first.size == (28, 28)
    assert first.tobytes() == again.tobytes() != letters.drawn(file, "o").tobytes()
    small, capital, below = (letters.drawn(file, each).getbbox() for each in "oOp")
    assert abs(small[3] - capital[3]) <= 1 < small[1] - capital[1]
    assert below[3] > small[3] + 3


def test_the_data_of_letters_name_each_package_once_under_its_licence(tmp_path):
    copyfile(letters.ABOUT, tmp_path / "README.md")
    name, text = about(tmp_path)
    listed = re.findall(r"`fonts-([\w-]+)`", text[text.index("\n- ") :])
    assert (name, sorted(listed)) == (
        "Letters of Debian's fonts",
        sorted(f"{letters.TRAIN} {letters.TEST}".split()),
    )
