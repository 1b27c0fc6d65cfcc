"""ModelConfig: written and read back whole; what follows from its fields."""

import json

import pytest

from scanline.model.config import ModelConfig
from tests.support import small_models


@pytest.mark.parametrize("variant", small_models.CORE)
def test_json_round_trip(variant: str) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    data = json.loads(json.dumps(config.to_dict()))
    before = json.dumps(data)
    assert ModelConfig.from_dict(data) == config
    assert json.dumps(data) == before, "reading changed the dictionary"
    with pytest.raises(AttributeError):
        config.layers = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("variant", "size", "shape", "first", "step_bytes", "steps", "recent"),
    [
        ("plain", 20, (4, 5), 0, 1, 20, 0),
        ("colour", 60, (4, 5, 3), 0, 1, 60, 0),
        ("pixels", 60, (4, 5, 3), 0, 3, 20, 2 * (5 + 3) * 2 * 6),
        ("histogram", 20, (4, 5), 1, 1, 19, 0),
    ],
)
def test_what_follows_from_the_fields(
    variant: str, size: int, shape: tuple[int, ...], first: int, step_bytes: int, steps: int, recent: int
) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    assert (config.bytes, config.image_shape, config.first) == (size, shape, first)
    assert (config.step_bytes, config.steps) == (step_bytes, steps)
    assert config.state_bytes_per_image == 4 * (2 * 2 * 8 * (6 + 1) + recent)


def test_the_name_of_a_class_is_the_first_of_its_words() -> None:
    config = small_models.config(**small_models.CLASSES)
    assert config.class_names == ("7", "horse", "sea shell")
    data = json.loads(json.dumps(config.to_dict()))
    assert data["classes"] == [["7", "seven"], ["horse"], ["sea shell", "shell"]]
    assert ModelConfig.from_dict(data) == config
    assert small_models.config().classes == small_models.config().class_names == ()


def test_a_configuration_of_the_format_before_mixes_no_neighbours_and_saw_no_mirrored_images() -> None:
    data = small_models.config().to_dict()
    del data["neighbours"], data["mirrored"]
    assert ModelConfig.from_dict(data | {"format": 2}) == small_models.config()
