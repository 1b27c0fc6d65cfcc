"""docs/operations.md: the options and variables that it names exist, sizes and alerts are the project's."""

import re
from pathlib import Path

import pytest

from scanline.model import zoo
from scanline.model.formats.model_dir import load_config
from scanline.model.precision import precision
from scanline.model.training.presets import PRESETS
from scanline.server.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs/operations.md").read_text()
REPEATED = {"model", "api_key", "allow_origin"}  # options that give one of many
ROWS = re.findall(r"^\| `([a-z][\w-]+)`.*?\| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)


def test_its_options_and_variables_are_settings() -> None:
    options = {name.replace("-", "_") for name in re.findall(r"`--([a-z-]+)", PAGE)}
    variables = {name.lower() for name in re.findall(r"SCANLINE_([A-Z_]+)", PAGE)}
    assert len(options) > 10
    assert options - REPEATED <= Settings.model_fields.keys()
    assert variables
    assert variables <= Settings.model_fields.keys()


def test_its_alerts_are_those_of_the_rules() -> None:
    rules = Path(__file__).parents[2] / "deploy/alerts.yml"
    assert set(re.findall(r"`(Scanline\w+)`", PAGE)) == set(re.findall(r"alert: (\w+)", rules.read_text()))


def test_every_preset_and_model_is_sized() -> None:
    assert {name for name, *_ in ROWS} == {*PRESETS, *zoo.names()}


@pytest.mark.parametrize(("name", "exact", "halved"), ROWS)
def test_images_per_gigabyte_are_states_and_bytes(name: str, exact: str, halved: str) -> None:
    config = load_config(zoo.find(name)) if name in zoo.names() else PRESETS[name].model
    numbers = 36  # of seed, index, temperature, bits, position
    for told, word in ((exact, "exact"), (halved, "float16-state")):
        image = precision(word).state_bytes(config) + 2 * config.bytes + numbers
        assert int(told.replace(",", "")) == round(1e9 / image)
