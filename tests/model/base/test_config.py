"""The configuration of a model: its sizes, and what is refused."""

import json
import re

import pytest

from scanline.model.base.config import ModelConfig
from tests.support import small_models


@pytest.mark.parametrize("variant", small_models.CORE)
def test_json_round_trip(variant):
    config = small_models.config_of(variant)
    data = json.loads(json.dumps(config.to_dict()))
    before = json.dumps(data)
    assert ModelConfig.from_dict(data) == config
    assert json.dumps(data) == before, "reading changed the dictionary"
    with pytest.raises(AttributeError):
        config.layers = 3


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
    variant,
    size,
    shape,
    first,
    step_bytes,
    steps,
    recent,
):
    config = small_models.config_of(variant)
    assert (config.bytes, config.image_shape, config.first) == (size, shape, first)
    assert (config.step_bytes, config.steps) == (step_bytes, steps)
    assert config.state_bytes_per_image == 4 * (2 * 2 * 8 * (6 + 1) + recent)


def test_the_name_of_a_class_is_the_first_of_its_words():
    config = small_models.config(**small_models.CLASSES)
    assert config.class_names == ("7", "horse", "sea shell")
    data = json.loads(json.dumps(config.to_dict()))
    assert data["classes"] == [["7", "seven"], ["horse"], ["sea shell", "shell"]]
    assert ModelConfig.from_dict(data) == config
    assert small_models.config().classes == small_models.config().class_names == ()


def test_a_configuration_of_an_earlier_format_has_the_options_of_its_time():
    data = small_models.config().to_dict()
    del data["neighbours"], data["mirrored"], data["class_biases"]
    assert ModelConfig.from_dict(data | {"format": 2}) == small_models.config()


CONCAT = small_models.VARIANTS["concat"]
NO_HISTOGRAM = "first_byte_histogram must hold 256 probabilities that sum to 1"


def histogram(values):
    return {"start_token": False, "first_byte_histogram": values}


PIXELS = small_models.config_of("pixels").to_dict()
FIELDS = {
    "zero": ({"layers": 0}, "layers must be at least 1, not 0"),
    "more than any machine has": (
        {"height": 10**30},
        f"height must be at most 65536, not {10**30}",
    ),
    "too wide": ({"feed_forward": 70_000}, "feed_forward must be at most 65536, not 70000"),
    "too deep": ({"layers": 10**9}, "layers must be at most 1024, not 1000000000"),
    "too many heads": (
        {"heads": 65_536},
        "heads x width must be at most 65536, for keys and for values",
    ),
    "too large an image": (
        {"width": 65_536, "height": 17},
        "an image must have at most 1048576 bytes, not 1114112",
    ),
    "bool for int": ({"heads": True}, "heads must be of type int, not True"),
    "int for bool": ({"start_token": 1}, "start_token must be of type bool, not 1"),
    "channels": ({"channels": 2}, "channels must be 1 (grey) or 3 (RGB), not 2"),
    "feature map": ({"feature_map": "relu"}, "unknown feature map 'relu'"),
    "norm": ({"norm": "mid"}, "norm must be one of pre, post, not 'mid'"),
    "activation": ({"activation": "tanh"}, "activation must be one of relu, gelu, not 'tanh'"),
    "position": ({"position": None}, "position must be one of axial, sincos, not None"),
    "odd width": (
        {**CONCAT, "heads": 1, "value_width": 7},
        "a concatenated embedding needs an even width, not 7",
    ),
    "both starts": (
        {"first_byte_histogram": small_models.HISTOGRAM},
        "either a start token or a first_byte_histogram",
    ),
    "neither start": ({"start_token": False}, "either a start token or a first_byte_histogram"),
    "short histogram": (histogram([0.5, 0.5]), NO_HISTOGRAM),
    "negative probability": (histogram([-1.0, 2.0] + [0.0] * 254), NO_HISTOGRAM),
    "NaN probability": (histogram([float("nan")] + [1 / 255] * 255), NO_HISTOGRAM),
    "text in the histogram": (
        histogram(["1"] + [0] * 255),
        "first_byte_histogram must be a list of numbers",
    ),
    "window, no pixels": (
        {"reads": "window"},
        "a step of a pixel reads a window, and a step of a byte reads a byte",
    ),
    "reads": ({"reads": "pixel"}, "reads must be one of byte, window, not 'pixel'"),
    "pixels without window": (
        {"step": "pixel"},
        "a step of a pixel reads a window, and a step of a byte reads a byte",
    ),
    "pixel logistics of bytes": (
        {"predicts": "pixel_logistics"},
        "pixel_logistics are predicted by steps of a pixel",
    ),
    "categorical": (
        {**PIXELS, "predicts": "categorical"},
        "a step of 3 bytes predicts pixel_logistics, not cat",
    ),
    "blocks of bytes": ({"blocks": 1}, "blocks needs a model that reads a window"),
    "outside of bytes": ({"outside": 1}, "outside needs a model that reads a window"),
    "window beside": (
        {**PIXELS, "embedding_join": "concat"},
        "a model that reads a window has axial positions added",
    ),
    "no window rows": ({**PIXELS, "window_rows": 0}, "window_rows must be from 1 to 4, not 0"),
    "high window": ({**PIXELS, "window_rows": 5}, "window_rows must be from 1 to 4, not 5"),
    "wide window": ({**PIXELS, "window_columns": 6}, "window_columns must be from 1 to 5, not 6"),
    "waves beyond the window": ({**PIXELS, "wave_rows": 3}, "wave_rows must be from 0 to 2, not 3"),
    "too many waves": ({**PIXELS, "waves": 17}, "waves must be from 0 to 16, not 17"),
    "blocks without a width": (
        {**PIXELS, "blocks": 2},
        "block_width must be from 1 to 65536, not 0",
    ),
    "outside": ({**PIXELS, "outside": 256}, "outside must be a byte, not 256"),
    "classes in one word": (
        {"classes": "seven"},
        "classes must be a list of lists of words, not 'seven'",
    ),
    "classes that are words": (
        {"classes": ["7", "8"]},
        "classes must be a list of lists of words, not ('7', '8')",
    ),
    "classes of numbers": (
        {"classes": [[7]]},
        "classes must be a list of lists of words, not ((7,),)",
    ),
    "no words": (
        {"classes": [["7"], []]},
        "each class needs from 1 to 32 words, its name first, not 0",
    ),
    "many words": (
        {"classes": [list(map(str, range(33)))]},
        "needs from 1 to 32 words, its name first, not 33",
    ),
    "a long word": (
        {"classes": [["a" * 257]]},
        "a class has words of at most 256 printable characters, not 'aaa",
    ),
    "words that a terminal obeys": (
        {"classes": [["\x1b]0;a\x07"]]},
        "printable characters, not '\\x1b]0;a\\x07'",
    ),
    "a word of two lines": (
        {"classes": [["three\nforged"]]},
        "printable characters, not 'three\\nforged'",
    ),
    "a word of marks": (
        {"classes": [["e" + 31 * "\u0301"]]},
        "more than 30 combining marks in a row",
    ),
    "an empty word": (
        {"classes": [[""]]},
        "the words of classes are lower case, without spaces at their ends, not ''",
    ),
    "capitals": (
        {"classes": [["Horse"]]},
        "are lower case, without spaces at their ends, not 'Horse'",
    ),
    "a word of two classes": (
        {"classes": [["7"], ["8", "7"]]},
        "the word '7' stands for more than one class",
    ),
    "a word twice": (
        {"classes": [["7", "7"]]},
        "the word '7' stands for more than one class, or twice for one",
    ),
    "too many classes": (
        {"classes": [[str(i)] for i in range(1001)]},
        "a model has at most 1,000 classes, not 1,001",
    ),
    "unknown key": ({"colour": 1, "depth": 2}, "unknown key 'colour'"),
    "newer format": ({"format": 6}, "format 6 is newer than this program, which reads format 5"),
    "format 1": ({"format": 1}, "format must be 5, not 1"),
}


@pytest.mark.parametrize("case", FIELDS)
def test_wrong_field(case):
    changes, sentence = FIELDS[case]
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        ModelConfig.from_dict({**small_models.config().to_dict(), **changes})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", small_models.config().to_dict())
def test_missing_key(key):
    data = small_models.config().to_dict()
    del data[key]
    sentence = f"missing key '{key}'"
    sentence += ", which the configuration of each model of Scanline has" if key == "format" else ""
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        ModelConfig.from_dict(data)
