"""deploy/alerts.yml: the rules fire on what they say and on nothing else, and ask for what the server tells."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALERTS = (ROOT / "deploy/alerts.yml").read_text()

with_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool comes with Debian's prometheus")


def promtool(*arguments: str | Path) -> None:
    told = subprocess.run(["promtool", *arguments], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr


@with_promtool
def test_prometheus_reads_its_configuration() -> None:
    promtool("check", "config", ROOT / "deploy/prometheus.yml")


@with_promtool
def test_each_fires_on_what_it_says() -> None:
    promtool("test", "rules", ROOT / "tests/deploy/alerts.yaml")


def test_each_is_tested() -> None:
    names = set(re.findall(r"- alert: (\w+)", ALERTS))
    assert names
    assert names == set(re.findall(r"alertname: (\w+)", (ROOT / "tests/deploy/alerts.yaml").read_text()))


def test_the_codes_are_the_servers() -> None:
    told = {code for path in (ROOT / "server").rglob("*.py") for code in re.findall(r'code="(\w+)"', path.read_text())}
    asked = {code for codes in re.findall(r'code=~"([\w|]+)"', ALERTS) for code in codes.split("|")}
    assert asked
    assert asked <= told
