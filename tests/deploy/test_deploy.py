"""deploy/ for one machine: Compose files are valid; dashboard and alerts use metrics that the server exports."""

import json
import re
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from scanline.server.environment import check
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.process.running import CLOSING_SECONDS
from scanline.server.runtime.lifecycle import ERROR_RESPONSE_SECONDS
from scanline.server.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
CUDA = DEPLOY / "compose.cuda.yaml"
DASHBOARD = json.loads((DEPLOY / "grafana/scanline.json").read_text())


def services(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())["services"]


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.y*ml")), ids=lambda path: path.name)
def test_every_file_is_yaml(path: Path) -> None:
    documents = list(yaml.safe_load_all(path.read_text()))
    assert documents
    assert all(isinstance(document, dict) for document in documents)


@pytest.mark.parametrize("path", [COMPOSE, CUDA], ids=lambda path: path.name)
def test_it_is_valid_by_the_schema_of_compose(path: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", path]
    result = run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_variables_are_settings_and_the_overlay_changes_existing_services_and_build_arguments() -> None:
    check(dict.fromkeys(services(COMPOSE)["scanline"]["environment"], ""), ())
    assert services(CUDA).keys() <= services(COMPOSE).keys()
    arguments = services(CUDA)["scanline"]["build"]["args"]
    known = re.findall(r"^ARG (\w+)", (DEPLOY.parent / "Dockerfile").read_text(), re.MULTILINE)
    assert arguments
    assert arguments.keys() <= set(known)


@pytest.mark.parametrize(("path", "limit"), [(COMPOSE, "2g"), (CUDA, "8g")], ids=["cpu", "cuda"])
def test_memory_has_the_limit_that_it_has_on_kubernetes(path: Path, limit: str) -> None:
    manifest = DEPLOY / "kubernetes" / ("cpu" if path == COMPOSE else "cuda") / "deployment.yaml"
    (container,) = yaml.safe_load(manifest.read_text())["spec"]["template"]["spec"]["containers"]
    assert services(path)["scanline"]["mem_limit"] == limit
    assert container["resources"]["limits"]["memory"] == limit.replace("g", "Gi")


def test_temporary_files_have_a_limit_below_that_of_memory() -> None:
    service = services(COMPOSE)["scanline"]
    (options,) = service["tmpfs"]
    (size,) = re.findall(r"\bsize=(\d+)g\b", options)
    assert int(size) < int(service["mem_limit"].removesuffix("g"))


def test_the_grace_period_is_longer_than_the_drain() -> None:
    (seconds,) = re.findall(r"^(\d+)s$", services(COMPOSE)["scanline"]["stop_grace_period"])
    assert int(seconds) > Settings.model_fields["drain_seconds"].default + ERROR_RESPONSE_SECONDS + CLOSING_SECONDS


@pytest.mark.parametrize("name", ["grafana/scanline.json", "alerts.yml"])
def test_queries_use_metrics_that_the_server_exports(grey_directory: Path, name: str) -> None:
    settings = Settings(models=(str(grey_directory),))
    metrics = TestClient(build(settings, served_models(settings))).get("/metrics").text
    kinds = dict(re.findall(r"^# TYPE (scanline_\w+) (\w+)", metrics, re.MULTILINE))
    known = {f"{metric}_bucket" if kind == "histogram" else metric for metric, kind in kinds.items()}
    used = set(re.findall(r"scanline_\w+", (DEPLOY / name).read_text()))
    assert used
    assert used <= known


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [(p["x"] + x, p["y"] + y) for p in places for x in range(p["w"]) for y in range(p["h"])]
    assert len(cells) == len(set(cells))


def test_mounted_files_exist() -> None:
    mounts = [mount.split(":")[0] for service in services(COMPOSE).values() for mount in service.get("volumes", [])]
    files = [DEPLOY / mount for mount in mounts if mount.startswith(".")]
    assert files
    assert all(file.exists() for file in files)


def test_prometheus_scrapes_the_server_of_the_compose_file_and_has_the_rules_mounted() -> None:
    configuration = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    (job,) = configuration["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    host, port = target.split(":")
    assert services(COMPOSE)[host]["ports"] == [f"127.0.0.1:{port}:{port}"]
    mounts = services(COMPOSE)["prometheus"]["volumes"]
    assert configuration["rule_files"]
    assert all(f"./{name}:/etc/prometheus/{name}:ro" in mounts for name in configuration["rule_files"])
