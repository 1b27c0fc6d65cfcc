"""The operator's pages: options, arguments and alerts exist;
defaults, meanings and sizes are the code's.

`python -m tests.deploy.test_pages` writes the rows of
docs/configure.md anew, but for their last column.
"""

import re
from pathlib import Path

from typer.main import get_command

from scanline.model import zoo
from scanline.model.base.precision import precision
from scanline.model.formats.model_dir import load_config
from scanline.model.training.presets import PRESETS
from scanline.server.cli.app import app
from scanline.server.cluster.arguments import ClusterSettings
from scanline.server.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
CONFIGURE = (DOCS / "configure.md").read_text()
SERVE = {each.opts[0]: each for each in get_command(app).commands["serve"].params}  # type: ignore[attr-defined]
OPTION = re.compile(r"^\| `(--[a-z-]+)` \|.*\|([^|]*)\|$", re.MULTILINE)
SIZES = re.findall(
    r"^\| `([a-z][\w-]+)`.*?\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", CONFIGURE, re.MULTILINE
)


def row(found: re.Match[str]) -> str:
    """The row of an option, with default and meaning as `scanline serve --help` has them."""
    option = SERVE[found[1]]
    default = re.sub(r"^\d{5,}$", lambda digits: f"{int(digits[0]):,}", option.show_default)
    return f"| `{found[1]}` | {default} | {option.help} |{found[2]}|"


WRITTEN = OPTION.sub(row, CONFIGURE)


def test_every_option_is_documented_once_as_its_help_says() -> None:
    assert sorted(option for option, _ in OPTION.findall(CONFIGURE)) == sorted(SERVE)
    assert WRITTEN == CONFIGURE


def test_every_argument_of_a_cluster_is_documented_with_its_default() -> None:
    shown = dict(
        re.findall(
            r"^\| `(\w+)` \| `?([^|`]*?)`? ?\|", (DOCS / "cluster.md").read_text(), re.MULTILINE
        )
    )
    assert shown == {"model": zoo.DEFAULT} | {
        name: "" if field.default is None else f"{field.default:,}"
        for name, field in ClusterSettings.model_fields.items()
        if name not in Settings.model_fields or field.default != Settings.model_fields[name].default
    }


def test_its_alerts_are_those_of_the_rules() -> None:
    rules = DOCS.parent / "deploy/alerts.yml"
    assert set(re.findall(r"`(Scanline\w+)`", (DOCS / "operate.md").read_text())) == set(
        re.findall(r"alert: (\w+)", rules.read_text())
    )


def test_every_preset_and_model_has_its_images_per_gigabyte_computed_from_state_and_bytes() -> None:
    assert {name for name, *_ in SIZES} == {*PRESETS, *zoo.names()}
    numbers = 36  # bytes of seed, index, temperature, bits, position
    for name, *shown in SIZES:
        config = load_config(zoo.find(name)) if name in zoo.names() else PRESETS[name].model
        kept = ("exact", "cpu"), ("exact", "cuda"), ("bfloat16-state", "cuda")
        for number, (word, device) in zip(shown, kept, strict=True):
            image = precision(word).state_bytes(config, device) + 2 * config.bytes + numbers
            assert int(number.replace(",", "")) == round(1e9 / image), (name, word, device)


if __name__ == "__main__":
    (DOCS / "configure.md").write_text(WRITTEN)
