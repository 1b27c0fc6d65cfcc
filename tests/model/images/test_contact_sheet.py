"""Contact sheets: images row by row in the nearest square."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scanline.model.images import contact_sheet
from scanline.model.images.contact_sheet import class_sheet, sheet


@pytest.mark.parametrize(("count", "columns", "rows"), [(1, 1, 1), (2, 2, 1), (3, 2, 2), (5, 3, 2), (7, 3, 3)])
def test_nearest_square_unless_columns_are_chosen(count: int, columns: int, rows: int) -> None:
    assert sheet(np.zeros((count, 4, 5), np.uint8)).size == (columns * 5, rows * 4)
    assert sheet(np.zeros((count, 4, 5), np.uint8), columns=6).size == (30, -(-count // 6) * 4)


@pytest.mark.parametrize(("colour", "mode"), [((), "L"), ((3,), "RGB")])
def test_images_stand_row_by_row_and_the_rest_is_black(tmp_path: Path, colour: tuple[int, ...], mode: str) -> None:
    images = np.random.default_rng(0).integers(1, 256, (5, 4, 5, *colour), np.uint8)
    pixels = np.asarray(sheet(images))
    assert pixels.shape == (8, 15, *colour)
    for i in range(5):
        top, left = i // 3 * 4, i % 3 * 5
        np.testing.assert_array_equal(pixels[top : top + 4, left : left + 5], images[i])
    assert not pixels[4:, 10:].any()
    contact_sheet.save(images, tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as picture:
        assert (picture.format, picture.mode) == ("PNG", mode)
        np.testing.assert_array_equal(np.asarray(picture), pixels)


@pytest.mark.parametrize("colour", [(), (3,)])
def test_each_class_has_a_row_after_its_name(colour: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(1, 256, (3, 4, 16, 12, *colour), np.uint8)
    pixels = np.asarray(class_sheet(images, ("1", "horse", "大")))
    names, rows = pixels[:, :-48], pixels[:, -48:]
    np.testing.assert_array_equal(rows, np.asarray(sheet(images.reshape(12, 16, 12, *colour), 4)))
    for row in range(3):
        assert names[16 * row : 16 * row + 16].any()
    assert names[16:32].any(axis=0).sum() > names[:16].any(axis=0).sum()  # the longer name is wider
    numbered = np.asarray(class_sheet(images, ("1", "horse", "3")))
    np.testing.assert_array_equal(pixels, numbered)  # where the font lacks a letter, the number stands


def test_rows_too_low_for_letters_have_no_names() -> None:
    assert class_sheet(np.zeros((2, 5, 9, 8), np.uint8), ("a", "b")).size == (40, 18)
