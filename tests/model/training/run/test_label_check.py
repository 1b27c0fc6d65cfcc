"""Labels before the first update: compared with what a trained model reads, by
class names, and refused if shifted.
"""

import re

import pytest

from scanline.model.datasets.classes import Labels
from scanline.model.datasets.source import ImageSet
from scanline.model.formats.checkpoint import save_class_head, save_model
from scanline.model.formats.model_dir import CLASS_HEAD
from scanline.model.training.run.class_head import fit_class_head
from scanline.model.training.run.label_check import BY_BITS, BY_HEAD, check_labels
from tests.model.network.test_class_head import shaded
from tests.support import small_models

IMAGES, LABELS = shaded(600, seed=0)
# those of the model, which are 7, horse and sea shell
REORDERED = (("sea shell",), ("7",), ("horse",))


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "shades"
    model = small_models.model_of("strokes", **small_models.CLASSES)
    save_model(model, directory)
    save_class_head(fit_class_head(model, IMAGES, LABELS)[0], directory)
    return directory


def labelled(labels, classes=REORDERED):
    sides = (IMAGES, IMAGES[:2], 4, 5, 1)
    return ImageSet(*sides, None, "", labels=Labels(classes, labels, labels[:2]))


def test_labels_are_compared_by_the_names_of_their_classes(directory):
    said = check_labels(str(directory), labelled(LABELS % 3 + 1), "cpu")
    assert said
    found = re.fullmatch(rf"shades reads (\d+) of {BY_HEAD} training pictures as their class", said)
    assert found
    assert int(found[1]) > 80


@pytest.mark.parametrize(("shift", "names"), [(1, "sea shell as 7"), (2, "sea shell as horse")])
def test_shifted_labels_are_refused(directory, shift, names):
    sentence = rf"shifted: shades reads \d+ of {BY_HEAD} as their class and \d+ as the one {shift} after it, {names}$"
    with pytest.raises(ValueError, match=sentence):
        check_labels(str(directory), labelled((LABELS - shift) % 3 + 1), "cpu")


def test_without_a_class_head_a_few_are_read_by_bits_and_unknown_classes_are_not(
    directory,
):
    assert (
        check_labels(str(directory), labelled(LABELS, (("7",), ("horse",), ("owl",))), "cpu")
        is None
    )
    (directory / CLASS_HEAD).unlink()
    said = check_labels(str(directory), labelled(LABELS % 3 + 1), "cpu")
    assert said
    assert f" of {BY_BITS} training pictures as their class" in said
