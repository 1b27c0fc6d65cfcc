"""deploy/alerts.yml and the dashboard: rules fire where they should, and use what the server exports."""

import ast
import inspect
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from scanline.model.inputs import InvalidInput
from scanline.server.api.errors import ApiError
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.settings import Settings

ERRORS = {"ApiError": ApiError, "InvalidInput": InvalidInput}
# 503 of a server that is loading, draining or full, and 501 of one without an extra
NOT_ALERTED = {
    "not_ready",
    "shutting_down",
    "onnx_not_installed",
    "too_many_connections",
    "too_many_websockets",
    "unknown_transfer_coding",
}
NOT_ALERTED |= {"too_much_arriving", "too_much_unread"}  # clients cause these, and are told by the refusal
ROOT = Path(__file__).parents[2]
ALERTS = (ROOT / "deploy/alerts.yml").read_text()


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is in Debian's package prometheus")
@pytest.mark.parametrize("command", ["check config deploy/prometheus.yml", "test rules tests/deploy/alerts.yaml"])
def test_prometheus_accepts_its_configuration_and_the_tests_of_the_rules_pass(command: str) -> None:
    result = subprocess.run(["promtool", *command.split()], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_alert_is_tested() -> None:
    names = set(re.findall(r"- alert: (\w+)", ALERTS))
    assert names
    assert names == set(re.findall(r"alertname: (\w+)", (ROOT / "tests/deploy/alerts.yaml").read_text()))


def api_errors() -> dict[str, int]:
    """The status of every error code that the server's sources give to ApiError or InvalidInput."""
    found: dict[str, int] = {}
    for path in (ROOT / "server").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ERRORS:
                error = ERRORS[call.func.id]
                given = inspect.signature(error).bind(*call.args, **{word.arg: word.value for word in call.keywords})
                given.apply_defaults()
                code, status = given.arguments["code"], given.arguments.get("status", ast.Constant(400))
                code = code.value if isinstance(code, ast.Constant) else code
                if isinstance(code, str) and isinstance(status, ast.Constant):
                    found[code] = status.value
    return found


def test_every_server_error_is_alerted() -> None:
    errors = api_errors()
    found = {"engine_failed": 500, "stream_not_supported": 400, "invalid_value": 400}  # by keyword, position, default
    assert errors.items() >= found.items()
    expected = {code for code, status in errors.items() if status >= 500} - NOT_ALERTED
    assert expected
    for codes in re.findall(r'code=~"([\w|]+)"', ALERTS):
        assert set(codes.split("|")) == expected


@pytest.mark.parametrize("name", ["grafana/scanline.json", "alerts.yml"])
def test_queries_use_metrics_that_the_server_exports(grey_directory: Path, name: str) -> None:
    settings = Settings(models=(str(grey_directory),))
    metrics = TestClient(build(settings, served_models(settings))).get("/metrics").text
    kinds = dict(re.findall(r"^# TYPE (scanline_\w+) (\w+)", metrics, re.MULTILINE))
    known = {f"{metric}_bucket" if kind == "histogram" else metric for metric, kind in kinds.items()}
    used = set(re.findall(r"scanline_\w+", (ROOT / "deploy" / name).read_text()))
    assert used
    assert used <= known


def test_panels_do_not_overlap() -> None:
    panels = json.loads((ROOT / "deploy/grafana/scanline.json").read_text())["panels"]
    places = [panel["gridPos"] for panel in panels]
    cells = [(p["x"] + x, p["y"] + y) for p in places for x in range(p["w"]) for y in range(p["h"])]
    assert len(cells) == len(set(cells)) > 0
