"""The OpenAPI description against the server: valid requests are generated from it,
and each response must have a status, a media type and a shape that it describes.
The longer run is `pytest -m fuzz`.

schemathesis is imported by functions, since every worker collects all tests and one runs these.
"""

import io
from urllib.parse import urljoin

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from scanline.model.formats.code_file import MEDIA_TYPE, read
from tests.support.pictures import decode, encode, noise, text
from tests.support.server.error_answers import assert_error, assert_refused
from tests.support.server.routes import (
    CLASSIFICATIONS,
    CODES,
    DECODINGS,
    EDITS,
    GENERATIONS,
    LIKELIHOODS,
    STEPS,
)
from tests.support.server.running_server import PATIENCE
from tests.support.server.server_health import SLOTS

WITH_BODY = dict.fromkeys(
    (GENERATIONS, EDITS, LIKELIHOODS, CLASSIFICATIONS, STEPS, CODES, DECODINGS), "POST"
)
RELOAD = "/v1/models/{name}/reload"
NAMED = dict.fromkeys(("/v1/models/{name}", "/v1/models/{name}/weights"), "GET") | {RELOAD: "POST"}
ROUTES = WITH_BODY | NAMED | dict.fromkeys(("/v1/models", "/healthz", "/readyz", "/metrics"), "GET")
LENGTHS = [5, pytest.param(200, marks=pytest.mark.fuzz)]  # requests of a route and kind

MASK = encode(np.where(np.arange(35) < 20, 255, 0).astype(np.uint8).reshape(7, 5))
GOOD = [
    encode(noise(7, 5)),
    encode(noise(7, 5, 3), "WEBP", lossless=True),
    encode(noise(7, 5, 3), "BMP"),
]
BAD = [encode(noise(5, 7)), GOOD[0][:-20], b""]
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "accept": st.sampled_from(
            ["application/json", "image/*", "*/*", "text/html", "image/gif", "a,;/,", ""]
        ),
        "authorization": st.sampled_from(["Bearer key", "Basic a2V5", "Bearer"]),
        "if-none-match": st.sampled_from(["*", '"a"', 'W/"a"']),
        "origin": st.sampled_from(["null", "http://localhost"]),
        "x-request-id": st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=300),
    },
)
READ = {
    "application/x-npy": lambda data: np.load(io.BytesIO(data)),
    "image/png": decode,
    "image/webp": decode,
}
NO_FILMS = ("application/x-npy", "image/png")  # the other pictures are films as well
SEED = {"seed": st.integers(0, 2**63 - 1), "model": st.just("grey")}
PAINTED = {
    name: st.just(value)
    for name, value in (("prompt", ""), ("stream", False), ("partial_images", 0))
}
PAINTED |= {"n": st.integers(1, SLOTS), "size": st.sampled_from(["auto", "5x7"]), **SEED}
GIVEN = {"model": st.just("grey"), "image": st.lists(st.sampled_from(GOOD), min_size=1, max_size=3)}
MASKED = GIVEN | {"mask": st.just(MASK), "particles": st.integers(1, 64)}
KNOWN = MASKED | {"per_pixel": st.just(False), "repeats": st.just(2), **SEED}
# values that also fit the model, which the description does not
# know; it has no classes to tell apart
VALID = {GENERATIONS: PAINTED, EDITS: PAINTED | MASKED, LIKELIHOODS: KNOWN, CODES: GIVEN}

pytestmark = pytest.mark.usefixtures("small_room_client")


@pytest.fixture(scope="module")
def description(small_room_server):
    import schemathesis

    schemathesis.openapi.format("binary", st.sampled_from(GOOD + BAD) | st.binary())
    return schemathesis.openapi.from_url(f"{small_room_server.url}/openapi.json")


@pytest.fixture(scope="module")
def session():
    import requests

    with requests.Session() as session:
        session.headers.clear()  # its own Accept goes before a case's
        yield session


def send(case, session, headers, *excluded):
    """Sends a case and returns the response, which must be one that the description has. Not every
    valid request succeeds: the description does not know the model's name and size."""
    from schemathesis.specs.openapi.checks import (
        positive_data_acceptance,
        response_schema_conformance,
    )

    __tracebackhide__ = True
    case.headers = headers
    response = case.call(session=session, timeout=PATIENCE)
    if "text/event-stream" in response.headers.get("content-type", [""])[0]:
        # described as one text; each event is checked
        excluded = (*excluded, response_schema_conformance)
    case.validate_response(response, excluded_checks=[positive_data_acceptance, *excluded])
    if response.status_code >= 400:
        (error,) = response.json().values()
        assert_error({"error": {**error, "param": None}}, None, error["code"])
    return response


def fit(case, fields):
    """Makes a body that fits the description fit the model as well."""
    if case.media_type == "application/json":
        fields = {name: as_text(value) for name, value in fields.items()}
    else:
        # forms have no null
        case.body = {name: value for name, value in case.body.items() if value is not None}
    case.body = {**case.body, **fields}
    # the model has no classes; no films
    for name in ("keep_rows", "class", "guidance", "best_of", "frames", "seconds", "scale"):
        case.body.pop(name, None)


def as_text(value):
    """Pictures as JSON has them."""
    if isinstance(value, list):
        return [as_text(one) for one in value]
    return text(value) if isinstance(value, bytes) else value


def generated(examples):
    return settings(
        max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )


def test_every_route_is_among_these(description):
    assert {path: list(operations) for path, operations in description.items()} == {
        path: [method.lower()] for path, method in ROUTES.items()
    }


def test_it_says_how_many_images_a_request_may_have_and_names_probes(description):
    schemas = description.raw_schema["components"]["schemas"]
    number, _ = schemas["GenerationRequest"]["properties"]["n"]["anyOf"]
    form = schemas["EditForm"]["properties"]["n"]
    assert number["maximum"] == form["maximum"] < 2**31 - 1
    paths = description.raw_schema["paths"]
    summaries = [paths[path]["get"]["summary"] for path in ("/healthz", "/readyz")]
    assert summaries == ["Liveness probe", "Readiness probe"]
    order = [path for path in paths if path.startswith("/v1/models")]
    assert order[0] == "/v1/models"
    assert order[-1] == "/v1/models/{name}/weights"


def test_bodies_and_operations_have_the_names_that_generated_clients_take(description):
    raw = description.raw_schema
    for root in ("http://localhost:8000", "https://example.com/below/a/path"):
        base = urljoin(f"{root}/openapi.json", raw["servers"][0]["url"])
        assert base.removesuffix("/") == root
    operations = [operation for path in raw["paths"].values() for operation in path.values()]
    assert all(operation["operationId"].isidentifier() for operation in operations)
    for path in WITH_BODY:
        for kind, body in raw["paths"][path]["post"]["requestBody"]["content"].items():
            if kind == "application/octet-stream":  # a code itself
                assert body["schema"] == {"type": "string", "format": "binary"}
                continue
            name = body["schema"]["$ref"].removeprefix("#/components/schemas/")
            assert raw["components"]["schemas"][name]["title"] == name
            assert set(body.get("example", ())) <= set(
                raw["components"]["schemas"][name]["properties"]
            )
            assert ("example" in body) == (kind == "application/json")


@pytest.mark.parametrize("examples", LENGTHS)
@pytest.mark.parametrize("path", ROUTES)
def test_valid_requests(description, session, path, examples):
    @generated(examples)
    @given(case=description[path][ROUTES[path]].as_strategy(), headers=HEADERS)
    def check(case, headers):
        send(case, session, headers)

    check()


@pytest.mark.parametrize("examples", LENGTHS)
@pytest.mark.parametrize("path", VALID)
def test_what_fits_is_answered(description, session, path, examples):
    from schemathesis.specs.openapi.checks import negative_data_rejection

    @generated(examples)
    @given(
        case=description[path]["POST"].as_strategy(),
        fields=st.fixed_dictionaries(VALID[path]),
        accept=st.sampled_from(["application/json", *READ]),
    )
    def check(case, fields, accept):
        fit(case, fields)
        response = send(case, session, {"accept": accept}, negative_data_rejection)
        if accept in NO_FILMS and case.body.get("output_format") in ("gif", "apng"):
            assert (response.status_code, response.json()["error"]["param"]) == (
                400,
                "output_format",
            )
            return
        assert response.status_code == 200, response.text
        if response.headers["content-type"][0] == MEDIA_TYPE:
            assert read(response.content).count
        elif path in (LIKELIHOODS, CODES) or accept == "application/json":
            assert response.json()["data"]
        else:
            assert READ[accept](response.content).size % 35 == 0

    check()


def test_the_model_that_is_there(description, session):
    case = description["/v1/models/{name}"]["GET"].Case(path_parameters={"name": "grey"})
    assert send(case, session, {}).status_code == 200
    assert send(case, session, {"accept": "image/png"}).status_code == 200


@pytest.mark.parametrize("path", WITH_BODY)
def test_other_bodies(small_room_client, path):
    texts = [(kind, b"n=2") for kind in ("text/plain", "application/x-www-form-urlencoded", "")]
    for kind, body in (*texts, ("image/png", b"{}"), ("json", b"{}")):
        response = small_room_client.post(path, content=body, headers={"content-type": kind})
        assert_refused(response, 415, None, "unsupported_media_type")


@pytest.mark.parametrize("path", ROUTES)
def test_other_methods(small_room_client, path):
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - {ROUTES[path]}:
        if (path, method) == (RELOAD, "GET"):
            continue  # a model may have this name
        response = small_room_client.request(method, path)
        assert_refused(response, 405, None, "method_not_allowed")
        assert ROUTES[path] in response.headers["allow"].split(", ")
