"""Contact sheets: images row by row. Films: finished pixels appear in turn,
the same images in the same bytes.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from scanline.model.images import contact_sheet
from scanline.model.images import film as films
from scanline.model.images.contact_sheet import UNPAINTED, class_sheet, sheet
from scanline.model.images.film import LAST_MS, MAX_BYTES, Film
from scanline.model.images.film_files import encode
from scanline.model.images.saving import check_sheet
from tests.support.pictures import film_frames
from tests.support.sentences import assert_says
from tests.support.small_models import GREY


@pytest.mark.parametrize(
    ("count", "columns", "rows"),
    [
        (1, 1, 1),
        (3, 2, 2),
    ],
)
def test_nearest_square_unless_columns_are_chosen(count, columns, rows):
    assert sheet(np.zeros((count, 4, 5), np.uint8)).size == (columns * 5, rows * 4)
    assert sheet(np.zeros((count, 4, 5), np.uint8), columns=6).size == (30, -(-count // 6) * 4)


@pytest.mark.parametrize(("colour", "mode"), [((), "L"), ((3,), "RGB")])
def test_images_stand_row_by_row_and_the_rest_is_black(tmp_path, colour, mode):
    images = np.random.default_rng(0).integers(1, 256, (5, 4, 5, *colour), np.uint8)
    pixels = np.asarray(sheet(images))
    assert pixels.shape == (8, 15, *colour)
    for i in range(5):
        top = i // 3 * 4
        left = i % 3 * 5
        assert_array_equal(pixels[top : top + 4, left : left + 5], images[i])
    assert not pixels[4:, 10:].any()
    contact_sheet.save(images, tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as picture:
        assert (picture.format, picture.mode) == ("PNG", mode)
        assert (np.asarray(picture) == pixels).all()


@pytest.mark.parametrize("colour", [(), (3,)])
def test_each_class_has_a_row_after_its_name(colour):
    """Where the font lacks a letter of a name, the number of the class stands."""
    images = np.random.default_rng(0).integers(1, 256, (3, 4, 16, 12, *colour), np.uint8)
    pixels = np.asarray(class_sheet(images, ("1", "horse", "大")))
    rows = sheet(images.reshape(12, 16, 12, *colour), 4)
    assert_array_equal(pixels[:, -48:], np.asarray(rows))
    for top in (0, 16, 32):
        assert pixels[top : top + 16, :-48].any()
    assert_array_equal(pixels, np.asarray(class_sheet(images, ("1", "horse", "3"))))


def test_rows_too_low_for_letters_have_no_names():
    assert class_sheet(np.zeros((2, 5, 9, 8), np.uint8), ("a", "b")).size == (40, 18)


SIZE = (6, 9)  # rows and columns


@pytest.mark.parametrize("colour", [(), (3,)])
@pytest.mark.parametrize("kind", films.MEDIA_TYPES)
def test_frames_show_more_and_more_of_the_hidden_pixels_enlarged(kind, colour):
    images = np.random.default_rng(0).integers(0, 254, (2, *SIZE, *colour), np.uint8)
    known = np.zeros((2, *SIZE), np.bool_)
    known[1, :2] = known[1, 4:] = True  # 18 of 54 pixels are hidden
    film = Film(5, 0.5, 3)
    picture = np.asarray(sheet(images))
    appearance = np.asarray(sheet(film.appearance_frame(2, SIZE, known)))
    data = encode(picture, appearance, film, kind)
    expected = np.full((5, *images.shape), UNPAINTED, np.uint8)
    expected[:, known] = images[known]
    for frame in range(5):
        for image, hidden in enumerate((54, 18)):
            shown = tuple(np.argwhere(~known[image])[: hidden * frame // 4].T)
            expected[frame, image][shown] = images[image][shown]
    found, durations = film_frames(data)
    enlarged = [
        np.asarray(Image.fromarray(np.hstack(frame)).resize((54, 18), 0).convert("RGB"))
        for frame in expected
    ]
    assert_array_equal(found, enlarged)
    assert durations == [120, 130, 130, 120, LAST_MS]
    assert encode(picture, appearance, film, kind) == data


def test_a_gif_of_more_colours_than_it_has_is_near_them_and_grey_where_nothing_is_painted():
    picture = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    film = Film(2, scale=1)
    (first, last), _ = film_frames(
        encode(
            picture,
            film.appearance_frame(1, (40, 40))[0],
            film,
            "gif",
        )
    )
    assert (first == UNPAINTED).all()
    assert np.abs(last.astype(int) - picture).mean() < 20


@pytest.mark.parametrize(
    ("size", "scale"),
    [
        ((28, 28), 8),
        ((896, 896), 1),
        ((100, 28), 5),
    ],
)
def test_by_default_a_film_is_enlarged_to_512_pixels_and_at_most_8_times(size, scale):
    assert Film().scale_of(*size) == scale


TOO_WIDE = "cannot be written, only of up to"
WRONG = {
    "frames": (lambda: Film(257), "frames must be a whole number from 2 to 256, not 257."),
    "part of a frame": (lambda: Film(2.5), "frames must be a whole number from 2 to 256, not 2.5."),
    "seconds": (lambda: Film(seconds=float("nan")), "seconds must be from 0.1 to 60, not nan."),
    "haste": (lambda: Film(101, 1), "seconds must be at least 2 for 101 frames, 0.02 for each."),
    "scale": (lambda: Film(scale=0), "scale must be a whole number from 1 to 16, not 0."),
    "size": (
        lambda: Film(100, scale=16).check_size(64, 64, 3, "webp"),
        "frames: a film of 1024x1024 pixels has at most 10 frames; ask for fewer, a smaller scale or fewer images.",
    ),
    "a GIF's side": (
        lambda: Film(2, scale=1).check_size(70_000, 1, 1, "gif"),
        f"size: a gif of 70000x1 pixels {TOO_WIDE} 65,535 a side; ask for fewer or smaller images.",
    ),
    "a WebP's side": (
        lambda: Film(2, scale=2).check_size(1, 8192, 1, "webp"),
        f"size: a webp of 2x16384 pixels {TOO_WIDE} 16,383 a side; ask for fewer or smaller images.",
    ),
    "a sheet's side": (
        lambda: check_sheet(Path("a.webp"), None, 4000, GREY, 4000),
        f"size: a webp of 20000x7 pixels {TOO_WIDE} 16,383 a side; ask for fewer or smaller images.",
    ),
    "one frame's size": (
        lambda: Film(scale=1).check_size(MAX_BYTES, 1, 1, "apng"),
        "frames: a film of 33554432x1 pixels is too large; ask for fewer, a smaller scale or fewer images.",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_outside_the_limits_is_refused_with_one_sentence(what):
    call, sentence = WRONG[what]
    assert_says(sentence, call)
