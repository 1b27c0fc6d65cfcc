"""deploy/serve.yaml is valid by Serve's schema, and its arguments by ours."""

from pathlib import Path

import yaml
from ray.serve.schema import ServeDeploySchema

from scanline.server.cluster import app
from scanline.server.cluster.arguments import cluster_settings

FILE = Path(__file__).parents[2] / "deploy" / "serve.yaml"
(APPLICATION,) = ServeDeploySchema.model_validate(yaml.safe_load(FILE.read_text())).applications


def test_it_imports_our_application() -> None:
    assert APPLICATION.import_path == f"{app.__module__.removesuffix('.application')}:{app.__name__}"


def test_its_arguments_build_an_autoscaled_service_behind_two_ingresses() -> None:
    settings = cluster_settings(APPLICATION.args)
    assert settings.model_fields_set >= APPLICATION.args.keys() - {"model"}
    ingress = app(APPLICATION.args)._bound_deployment
    (model,) = (bound._bound_deployment for bound in ingress.init_args)
    assert (ingress.name, ingress.num_replicas) == ("Ingress", settings.ingress_replicas)
    assert model.name == settings.models[0]
    scaling = model._deployment_config.autoscaling_config
    assert (scaling.min_replicas, scaling.max_replicas) == (settings.min_replicas, settings.max_replicas)
