"""The script that draws the pictures of letters-small."""

import random
import re
from pathlib import Path
from shutil import copyfile

import matplotlib

from benchmarks.data import letters
from scanline.model.datasets.folder import about


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
