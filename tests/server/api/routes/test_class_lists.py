"""A list of classes paints one image of each, in one row of a sheet: over HTTP, in Python
and on the command line. Each is that of its class alone, with a model's defaults too: an
image without a class is neither guided nor chosen.
"""

import json
import shutil
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from scanline.model.inference import load
from tests.support.commands import done
from tests.support.page.visitor import painted
from tests.support.server.running_server import serve
from tests.support.server.sse_reader import images, post_for_events
from tests.support.server.websocket_client import connected

URL = "/v1/images/generations"
ROW = ["2", "horse", "none", "TWO", 6.0]
SHOWN = ["2", "horse", None, "2", "6"]
DEFAULTS = {
    "plain": {},
    "defaults": {"class": "any", "guidance": 2, "temperature": 0.9, "best_of": 2},
}


@pytest.fixture(scope="module", params=DEFAULTS)
def directory(digits_directory, tmp_path_factory, request):
    copied = shutil.copytree(digits_directory, tmp_path_factory.mktemp(request.param) / "digits")
    (copied / "generation_config.json").write_text(json.dumps(DEFAULTS[request.param]))
    return copied


@pytest.fixture(scope="module")
def server(directory):
    with serve(directory, "--slots=10", "--max-images-per-request=20") as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with server.client() as client:
        yield client


@pytest.mark.parametrize("more", [{}, {"guidance": 3}, {"n": 5}])
def test_each_image_is_that_of_its_class_alone(client, more):
    """Image i is image i of the same request with its class alone; so a
    list of one class is n images of it.
    """
    row = painted(client, seed=7, **more, **{"class": ROW})
    for index, name in enumerate(ROW):
        fields = {**more, "class": name, "n": index + 1}
        if name == "none":
            fields.pop("guidance", None)  # which needs a class
        assert (painted(client, seed=7, **fields)[index] == row[index]).all()


def test_all_faces_paint_the_same_row_and_name_its_classes(server, client, directory):
    model = load(directory, device="cpu")
    fields = {"class": ROW, "seed": 3}
    row = painted(client, **fields)
    sampled = model.sample(class_name=ROW, seed=3)
    assert (sampled.array == row).all()
    assert [*sampled.classes] == SHOWN
    assert ([*model.stream(class_name=ROW, seed=3)][-1].array == row).all()
    answer = client.post(URL, json=fields).json()
    assert [image["class"] for image in answer["data"]] == SHOWN
    events = post_for_events(client, URL, **fields, partial_images=1)
    assert (images(events) == row).all()
    completed = {
        event["index"]: event["class"] for event in events if event["type"].endswith("completed")
    }
    assert [completed[index] for index in range(len(ROW))] == SHOWN
    with connected(server.url) as websocket:
        job = websocket.paint(**fields)
    assert (job.images().reshape(row.shape) == row).all()
    assert model.sample(2, class_name="none", seed=3).classes == ()


def test_a_written_number_is_a_list_everywhere(client, directory, tmp_path):
    model = load(directory, device="cpu")
    names = ["2", "0", "2", "6"]
    model.sample(class_name=names, seed=3).save(tmp_path / "python.png")
    command = ("sample", "--model", directory, "--class", 2026, "--seed", 3)
    done(*command, "--out", tmp_path / "command.png")
    files = [(tmp_path / name).read_bytes() for name in ("python.png", "command.png")]
    for fields in ({"prompt": "2026"}, {"class": names}):
        files.append(
            client.post(URL, json={**fields, "seed": 3}, headers={"accept": "image/png"}).content
        )
    row = np.concatenate([*painted(client, prompt="2026", seed=3)], axis=1)
    assert all((np.asarray(Image.open(BytesIO(file))) == row).all() for file in files)
