"""What lies under deploy/: files that parse, mounts that exist, and a dashboard that asks for what the server tells."""

import json
import re
from pathlib import Path

import pytest
import yaml
from starlette.testclient import TestClient

from server.app import build
from server.models import served_models
from server.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana/scanline.json").read_text())


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.y*ml")), ids=lambda path: path.name)
def test_it_is_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_the_dashboard_asks_for_nothing_that_is_not_told(grey_directory: Path) -> None:
    settings = Settings(models=(str(grey_directory),))
    told = TestClient(build(settings, served_models(settings))).get("/metrics").text
    known = set(re.findall(r"^# TYPE (scanline_\w+)", told, re.MULTILINE))
    asked = {re.sub("_bucket$", "", name) for name in re.findall(r"scanline_\w+", json.dumps(DASHBOARD))}
    assert asked
    assert asked <= known


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [(p["x"] + x, p["y"] + y) for p in places for x in range(p["w"]) for y in range(p["h"])]
    assert len(cells) == len(set(cells))


def test_what_is_mounted_exists() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    mounts = [mount.split(":")[0] for service in services.values() for mount in service.get("volumes", [])]
    files = [DEPLOY / mount for mount in mounts if mount.startswith(".")]
    assert files
    assert all(file.exists() for file in files)


def test_prometheus_asks_the_server_of_the_compose_file() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    host, port = target.split(":")
    assert host in services
    assert services[host]["ports"] == [f"127.0.0.1:{port}:{port}"]
