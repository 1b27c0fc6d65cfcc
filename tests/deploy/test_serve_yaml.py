"""deploy/serve.yaml, held to Serve's own schema and to ours."""

from pathlib import Path

import yaml
from ray.serve.schema import ServeDeploySchema

from scanline.server.cluster import app

FILE = Path(__file__).parents[2] / "deploy" / "serve.yaml"


def test_serve_takes_it_and_so_do_we() -> None:
    config = ServeDeploySchema.model_validate(yaml.safe_load(FILE.read_text()))
    (application,) = config.applications
    assert application.import_path == f"{app.__module__.removesuffix('.application')}:{app.__name__}"
    assert app(application.args) is not None
