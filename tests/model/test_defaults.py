"""What images are painted with where a request does not say, and generation_config.json, which says it."""

import json
from pathlib import Path

import pytest

from scanline.model import zoo
from scanline.model.defaults import Defaults, SamplingParams
from scanline.model.formats.checkpoint import save_model
from scanline.model.formats.model_dir import ModelDirectoryError, load_config, read_defaults
from scanline.model.inference import load
from scanline.model.inputs import InvalidInput
from tests.support import shapes, small_models

CONFIG = shapes.GUIDED
DEFAULTS = Defaults("any", 1.5, 0.9, 4)
DRAWN, STAR = len(CONFIG.classes), 3


@pytest.mark.parametrize(
    ("asked", "prompt", "expected"),
    [
        ((), "", SamplingParams(0, DRAWN, 1.5, 0.9, 1)),
        (("star",), "", SamplingParams(STAR, 0, 1.5, 0.9, 1)),
        ((), "a star", SamplingParams(STAR, 0, 1.5, 0.9, 1)),
        (("None",), "", SamplingParams(0, 0, 1.0, 0.9, 1)),
        ((None, 1.0, 1.0), "", SamplingParams(0, DRAWN, 1.0, 1.0, 1)),
        ((None, 3.0), "", SamplingParams(0, DRAWN, 3.0, 0.9, 1)),
    ],
)
def test_images_from_nothing(asked: tuple[object, ...], prompt: str, expected: SamplingParams) -> None:
    assert DEFAULTS.to_paint(CONFIG, *asked, prompt=prompt) == expected  # type: ignore[arg-type]


def test_a_completion_has_no_class_unless_one_is_asked_for() -> None:
    assert DEFAULTS.to_complete(CONFIG) == SamplingParams(0, 0, 1.0, 0.9, 4)
    assert DEFAULTS.to_complete(CONFIG, "star", 2.0) == SamplingParams(STAR, 0, 2.0, 0.9, 1)
    assert DEFAULTS.to_complete(CONFIG, particles=2).particles == 2


@pytest.mark.parametrize(("class_name", "guidance"), [("none", None), ("circle", None)])
def test_a_class_against_the_prompt_is_refused(class_name: str, guidance: float | None) -> None:
    with pytest.raises(InvalidInput, match=r"^class and prompt name different classes"):
        DEFAULTS.to_paint(CONFIG, class_name, guidance, prompt="star")


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ({"class": "horse"}, "class must be one of "),
        (
            {"guidance": 2, "classes": "any"},
            "unknown field 'classes'; it may have class, guidance, temperature, particles",
        ),
        ({"guidance": "2"}, "guidance must be a number, not '2'"),
        ({"guidance": 11, "class": "any"}, "guidance must be from 1 "),
        ({"temperature": 3}, "temperature must be from "),
        ({"particles": 0}, "particles must be a whole number from 1 to 64, not 0"),
        ([], "must hold a JSON object"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence(tmp_path: Path, file: object, sentence: str) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps(file))
    with pytest.raises(ModelDirectoryError, match=r"generation_config\.json") as caught:
        read_defaults(tmp_path, CONFIG)
    assert sentence in str(caught.value)


def test_python_paints_with_the_defaults_and_says_so(tmp_path: Path) -> None:
    save_model(small_models.model(CONFIG), tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps(DEFAULTS.to_dict()))
    model = load(tmp_path, device="cpu")
    unsaid = model.sample(3, seed=1)
    said = model.sample(3, seed=1, class_name="any", guidance=1.5, temperature=0.9)
    assert (unsaid.array == said.array).all()
    assert (unsaid.classes, unsaid.guidance, unsaid.temperature) == (said.classes, 1.5, 0.9)
    assert model.sample(3, seed=1, class_name="none").classes == ()


def test_the_shipped_digits_are_guided() -> None:
    directory = zoo.find("mnist-small")
    config = load_config(directory)
    assert read_defaults(directory, config) == Defaults("any", 2)
