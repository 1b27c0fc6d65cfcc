"""ModelConfig: written and read back whole; what follows from its fields."""

import json

import pytest

from scanline.model.config import ModelConfig
from tests.support import small_models


@pytest.mark.parametrize("variant", small_models.VARIANTS)
def test_json_round_trip(variant: str) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    data = json.loads(json.dumps(config.to_dict()))
    before = json.dumps(data)
    assert ModelConfig.from_dict(data) == config
    assert json.dumps(data) == before, "reading changed the dictionary"
    with pytest.raises(AttributeError):
        config.layers = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "grey", "colour"),
    [
        ("bytes", 20, 60),
        ("image_shape", (4, 5), (4, 5, 3)),
        ("size", "5x4", "5x4"),
        ("model_width", 12, 12),
        ("first", 0, 0),
        ("state_bytes_per_image", 4 * 2 * 2 * 8 * (6 + 1), 4 * 2 * 2 * 8 * (6 + 1)),
    ],
)
def test_what_follows_from_the_fields(name: str, grey: object, colour: object) -> None:
    assert getattr(small_models.config(), name) == grey
    assert getattr(small_models.config(**small_models.VARIANTS["colour"]), name) == colour


def test_a_step_of_a_pixel_paints_all_its_channels() -> None:
    config = small_models.config(**small_models.VARIANTS["pixels"])
    assert (config.step_bytes, config.steps, config.bytes) == (3, 20, 60)
    assert (small_models.config().step_bytes, small_models.config(**small_models.NO_START).steps) == (1, 19)


def test_the_name_of_a_class_is_the_first_of_its_words() -> None:
    config = small_models.config(**small_models.CLASSES)
    assert config.class_names == ("7", "horse", "sea shell")
    data = json.loads(json.dumps(config.to_dict()))
    assert data["classes"] == [["7", "seven"], ["horse"], ["sea shell", "shell"]]
    assert ModelConfig.from_dict(data) == config
    assert small_models.config().classes == small_models.config().class_names == ()


def test_without_a_start_token_the_network_predicts_from_the_second_byte() -> None:
    assert small_models.config(**small_models.NO_START).first == 1
