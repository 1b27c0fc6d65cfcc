"""What the Python API refuses: a ValueError with one sentence, of the rows of tests/support."""

import pytest

import scanline
from scanline.model.base.inputs import InvalidInput
from scanline.model.inference import Model
from tests.support import shapes
from tests.support.refusals import EVERYWHERE, IMAGE, IN_PYTHON

METHODS = {
    "complete": Model.complete,
    "score": Model.score,
    "estimate": Model.score_known,
    "classify": Model.classify,
    "compress": Model.compress,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory, grey_directory):
    directory = tmp_path_factory.mktemp("models") / "shapes"
    guided = shapes.save(directory, shapes.GUIDED, class_head=True)
    directories = {"shapes": guided, "grey": grey_directory}
    return {name: scanline.load(each, device="cpu") for name, each in directories.items()}


def ask(models, row):
    options = {name: value for name, value in row.asked.items() if value is not None}
    model = models[options.pop("model", "shapes")]
    image = options.pop("image", IMAGE) if row.task in METHODS else None
    if "class" in options:
        options["class_name"] = options.pop("class")
    if row.task == "generate":
        model.sample(**options)
    elif row.task == "stream":
        next(model.stream(1, **options))
    else:
        METHODS[row.task](model, image, **options)


@pytest.mark.parametrize("row", EVERYWHERE + IN_PYTHON, ids=str)
def test_a_refusal_is_a_value_error(models, row):
    with pytest.raises(InvalidInput) as caught:
        ask(models, row)
    assert str(caught.value) == row.sentence
    assert caught.value.code == row.code
