"""The operator's pages: the arguments of a cluster and the alerts are the code's."""

import re
from pathlib import Path

from scanline.model import zoo
from scanline.server.cluster.arguments import ClusterSettings
from scanline.server.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"


def test_every_argument_of_a_cluster_is_documented_with_its_default():
    shown = dict(
        re.findall(
            r"^\| `(\w+)` \| `?([^|`]*?)`? ?\|", (DOCS / "cluster.md").read_text(), re.MULTILINE
        )
    )
    expected = {
        name: "" if field.default is None else f"{field.default:,}"
        for name, field in ClusterSettings.model_fields.items()
        if name != "models"
        and (
            name not in Settings.model_fields
            or field.default != Settings.model_fields[name].default
        )
    }
    assert shown == {"model": zoo.DEFAULT, **expected}


def test_its_alerts_are_those_of_the_rules():
    rules = DOCS.parent / "deploy/alerts.yml"
    assert set(re.findall(r"`(Scanline\w+)`", (DOCS / "operate.md").read_text())) == set(
        re.findall(r"alert: (\w+)", rules.read_text())
    )
