"""docs/operations.md and docs/cluster.md: options, arguments and alerts exist; limits and sizes are the code's."""

import re
from pathlib import Path
from typing import Any

import pytest

from scanline.model import zoo
from scanline.model.formats.model_dir import load_config
from scanline.model.precision import precision
from scanline.model.training.presets import PRESETS
from scanline.server.cluster.arguments import ClusterSettings
from scanline.server.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "operations.md").read_text()
REPEATED = {"model", "api_key", "allow_origin", "allow_host", "trusted_proxy"}  # options that may be repeated
ROWS = re.findall(r"^\| `([a-z][\w-]+)`.*?\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)


def test_its_options_and_variables_are_settings() -> None:
    options = {name.replace("-", "_") for name in re.findall(r"`--([a-z-]+)", PAGE)}
    variables = {name.lower() for name in re.findall(r"SCANLINE_([A-Z_]+)", PAGE)}
    assert len(options) > 10
    assert options - REPEATED <= Settings.model_fields.keys()
    assert variables
    assert variables <= Settings.model_fields.keys()


@pytest.mark.parametrize(("option", "value"), re.findall(r"^\| `--([a-z-]+)` \| ([\d,.]+)", PAGE, re.MULTILINE))
def test_its_limits_are_the_defaults(option: str, value: str) -> None:
    assert float(value.replace(",", "")) == Settings.model_fields[option.replace("-", "_")].default


def test_every_argument_of_a_cluster_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|([^|]*)\|", (DOCS / "cluster.md").read_text(), re.MULTILINE)
    shown = {
        name.strip("`"): default.strip("`")
        for names, defaults in rows
        for name, default in zip(names.split(", "), re.split(r",\s", defaults.strip()), strict=True)
    }
    own = ClusterSettings.model_fields.keys() - Settings.model_fields.keys()
    changed = {
        name for name in Settings.model_fields if default_of(name, ClusterSettings) != default_of(name, Settings)
    }
    assert shown.keys() == own | changed | {"model"}
    assert shown.pop("model") == default_of("models", Settings)[0]
    assert shown.pop("replicas") == ""
    for name, default in shown.items():
        assert float(default.replace(",", "")) == default_of(name, ClusterSettings), name


def default_of(name: str, settings: type[Settings]) -> Any:
    return settings.model_fields[name].default


def test_its_alerts_are_those_of_the_rules() -> None:
    rules = DOCS.parent / "deploy/alerts.yml"
    assert set(re.findall(r"`(Scanline\w+)`", PAGE)) == set(re.findall(r"alert: (\w+)", rules.read_text()))


def test_every_preset_and_model_has_its_images_per_gigabyte_computed_from_state_and_bytes() -> None:
    assert {name for name, *_ in ROWS} == {*PRESETS, *zoo.names()}
    numbers = 36  # bytes of seed, index, temperature, bits, position
    for name, *shown in ROWS:
        config = load_config(zoo.find(name)) if name in zoo.names() else PRESETS[name].model
        kept = ("exact", "cpu"), ("exact", "cuda"), ("bfloat16-state", "cuda")
        for number, (word, device) in zip(shown, kept, strict=True):
            image = precision(word).state_bytes(config, device) + 2 * config.bytes + numbers
            assert int(number.replace(",", "")) == round(1e9 / image), (name, word, device)
