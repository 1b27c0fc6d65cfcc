"""POST /v1/images/likelihoods and /v1/images/classifications."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from scanline.model.images.framing import Frame
from scanline.model.inference import load
from scanline.model.likelihood.classification import mixture_bits
from scanline.model.sampling.base.generator import Generator
from tests.support import shapes
from tests.support.commands import done
from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import CLEAN, FILES, HOLE, IMAGE, MASKED, NOISY, post
from tests.support.server.routes import CLASSIFICATIONS, LIKELIHOODS
from tests.support.server.running_server import serve
from tests.support.shapes import MAX_IMAGES, ROOM

GREYS = noise(2, 7, 5)
COLOURS = noise(2, 3, 4, 3)
NAMES = ["circle", "square", "star"]


def scored(client, images, route=LIKELIHOODS, **fields):
    answer = post(client, route, image=[text(encode(image)) for image in images], **fields)
    assert answer.pop("read_by", "bits") == "bits"
    assert set(answer) == {"created", "model", "typical_bits_per_dim", "data"}
    assert (
        answer["typical_bits_per_dim"]
        == client.get(f"/v1/models/{answer['model']}").json()["typical_bits_per_dim"]
    )
    return answer["data"]


def classified(client, images, **fields):
    return scored(client, images, CLASSIFICATIONS, **fields)


def test_bits_per_dim_are_those_of_the_model(client, grey):
    alone = Generator(grey, 1).score(GREYS.reshape(2, 35)).mean(axis=1).tolist()
    unknown = {"typical": None, "tail_probability": None, "noisy": False}
    assert scored(client, GREYS) == [
        {"index": index, "bits_per_dim": pytest.approx(bits, rel=1e-12), **unknown}
        for index, bits in enumerate(alone)
    ]


def test_a_class_is_that_of_the_bits(shapes_client, shapes_model):
    (one,) = scored(shapes_client, GREYS[:1], **{"class": "star"})
    bits = shapes_model.score(GREYS[0], class_name="star")[0]
    assert one["bits_per_dim"] == pytest.approx(bits, rel=1e-6)


def test_bits_of_bytes_have_the_shape(colour_client, colour, client):
    data = scored(colour_client, COLOURS, per_pixel=True)
    alone = Generator(colour, 1).score(COLOURS.reshape(2, 36)).reshape(2, 3, 4, 3)
    assert_allclose([one["per_pixel"] for one in data], alone, rtol=1e-12)
    data = scored(client, GREYS, per_pixel=True)
    assert np.shape([one["per_pixel"] for one in data]) == (2, 7, 5)
    files = [("image[]", ("a.png", encode(image))) for image in GREYS]
    assert client.post(LIKELIHOODS, files=files, data={"per_pixel": "true"}).json()["data"] == data


def test_an_evaluated_model_says_how_unusual_an_image_is(shapes_client, shapes_model):
    (one,) = scored(shapes_client, NOISY[None])
    assert (one["typical"], one["noisy"]) == (False, True)
    assert one["tail_probability"] == pytest.approx(shapes_model.tail_probabilities(NOISY[None])[0])
    (cleaned,) = scored(shapes_client, NOISY[None], clean="auto")
    assert cleaned["bits_per_dim"] == pytest.approx(shapes_model.score(CLEAN)[0])


FILE = MASKED["image"]
MASK = MASKED["mask"]
OTHER = noise(7, 5, seed=1)


def estimates(client, **fields):
    return post(client, LIKELIHOODS, **{"image": FILE, **fields})


def test_the_estimate_is_that_of_its_completions(shapes_client, shapes_model):
    fields = {"seed": 4, "particles": 8, "repeats": 6, "class": "star"}
    answer = estimates(shapes_client, mask=MASK, **fields)
    expected = shapes_model.score_known(
        IMAGE, mask=HOLE == 255, class_name="star", particles=8, repeats=6, seed=4
    )
    assert set(answer) == {"created", "model", "seed", "particles", "repeats", "data"}
    assert (answer["seed"], answer["particles"], answer["repeats"]) == (4, 8, 6)
    assert answer["data"] == [
        {
            "index": 0,
            "evidence_bits": pytest.approx(expected.bits, rel=1e-6),
            "standard_error": pytest.approx(expected.standard_error, rel=1e-3),
            "known_bytes": 29,
            "bits_per_known_byte": pytest.approx(expected.bits / 29, rel=1e-6),
        }
    ]
    form = {name: str(value) for name, value in fields.items()}
    assert shapes_client.post(LIKELIHOODS, files=FILES, data=form).json()["data"] == answer["data"]
    both = estimates(shapes_client, **{**fields, "image": [FILE, text(encode(OTHER))]}, mask=MASK)[
        "data"
    ]
    assert both[0] == answer["data"][0]
    assert estimates(shapes_client, keep_rows=3)["data"][0]["known_bytes"] == 15
    assert both[1]["evidence_bits"] != both[0]["evidence_bits"]


def test_a_drawn_seed_gives_the_same_estimates_again(shapes_client):
    drawn = estimates(shapes_client, mask=MASK)
    assert (drawn["particles"], drawn["repeats"]) == (16, 4)
    assert drawn["data"][0]["standard_error"] > 0
    assert estimates(shapes_client, mask=MASK, seed=drawn["seed"])["data"] == drawn["data"]


def test_each_image_is_read_under_every_class_and_mirrored(shapes_client, shapes_model):
    images = np.concatenate(
        [shapes_model.sample(3, class_name=name, seed=2).array for name in NAMES]
    )
    expected = shapes_model.classify(images)
    assert (expected.bits != expected.compared_bits).all()
    data = classified(shapes_client, images)
    assert [(one["index"], one["class"]) for one in data] == list(enumerate(expected.best))
    assert (
        [list(one["posterior"]) for one in data]
        == [list(one["bits_per_dim"]) for one in data]
        == [NAMES] * 9
    )
    posterior = [list(one["posterior"].values()) for one in data]
    assert_allclose(posterior, expected.posterior, rtol=1e-3, atol=1e-9)
    assert_allclose(
        [list(one["bits_per_dim"].values()) for one in data], expected.bits / 35, rtol=1e-6
    )
    assert all(one["posterior_by_bits"] == one["posterior"] for one in data)
    # a model without a class head has nothing else
    assert classified(shapes_client, images, by_bits=True) == data
    files = [("image[]", ("a.png", encode(image))) for image in images]
    assert shapes_client.post(CLASSIFICATIONS, files=files).json()["data"] == data


def test_noise_is_removed_and_images_are_typical_or_not(shapes_client, shapes_model):
    before, after = (
        classified(shapes_client, np.stack([CLEAN, NOISY]), clean=clean)
        for clean in ("off", "auto")
    )
    assert [[one["noisy"] for one in each] for each in (before, after)] == [[False, True]] * 2
    assert before[0] == after[0]
    assert after[1]["bits_per_dim"] == after[0]["bits_per_dim"] != before[1]["bits_per_dim"]
    assert classified(shapes_client, NOISY[None])[0] == after[1] | {"index": 0}
    expected = shapes_model.classify(NOISY, clean="off")
    assert before[1]["tail_probability"] == pytest.approx(expected.tail_probabilities[0])
    assert before[1]["typical"] is bool(expected.typical[0]) is False
    assert before[1]["any_class_bits_per_dim"] == pytest.approx(
        mixture_bits(expected.bits)[0] / 35, rel=1e-6
    )


def test_a_photo_of_any_size_is_read_as_the_drawing_on_it(tmp_path):
    frame = Frame(5, 3.0, 2.0)
    directory = shapes.evaluate(shapes.save(tmp_path / "headed", class_head=True), frame)
    model = load(directory, device="cpu")
    drawing = np.zeros((7, 5), np.uint8)
    drawing[1:6, 2] = 254
    drawing[3, 1:4] = 254
    enlarged = Image.fromarray(drawing).resize((50, 70), Image.Resampling.NEAREST)
    paper = Image.new("L", (160, 90))
    paper.paste(enlarged, (90, 10))
    light = np.linspace(1, 0.7, 160)
    ink = np.asarray(paper).astype(float)
    photo = (light * (250 - 0.8 * ink)).astype(np.uint8)
    expected = model.classify(drawing)
    found = model.classify(Image.fromarray(photo))
    assert found.best == expected.best
    assert_allclose(found.posterior, expected.posterior, atol=0.05)
    # What was enlarged stays what it was.
    assert_array_equal(model.classify(enlarged).posterior, expected.posterior)

    file = encode(photo)
    folder = tmp_path / "photos"
    folder.mkdir()
    path = folder / "photo.png"
    path.write_bytes(file)
    assert_array_equal(model.classify([path, drawing]).posterior[:1], found.posterior)
    for given in (path, folder):
        said = done("classify", "--model", directory, given)
        assert str(path) in said
    with serve(directory, "--slots", "2") as server, server.client() as client:
        sent = {"image": text(file)}
        answer = post(client, CLASSIFICATIONS, **sent)
        (one,) = answer["data"]
        assert_array_equal([*one["posterior"].values()], found.posterior[0])
        (scored_so,) = post(client, LIKELIHOODS, **sent, clean="auto")["data"]
        bits = model.scores(Image.fromarray(photo), clean="auto").bits[0].mean()
        assert scored_so["bits_per_dim"] == pytest.approx(bits, rel=1e-6)
        for refused in ({"size_policy": "exact"}, {"clean": "off"}):
            response = client.post(CLASSIFICATIONS, json=sent | refused)
            assert_refused(response, 400, "image", "wrong_size")


def test_every_reading_counts_in_the_queue(shapes_client):
    readings = 2 * len(NAMES)  # each picture is also read mirrored
    most = ROOM // readings
    response = shapes_client.post(CLASSIFICATIONS, json={"image": [FILE] * (most + 1)})
    assert_refused(response, 429, None, "client_queue_full")
    assert len(classified(shapes_client, noise(1, 7, 5).repeat(most, axis=0))) == most
    too_many = [FILE] * (MAX_IMAGES // readings + 1)
    assert_refused(
        shapes_client.post(CLASSIFICATIONS, json={"image": too_many}), 400, "image", "invalid_value"
    )


def test_a_class_head_decides_and_bits_are_read_where_they_are_wanted(tmp_path):
    directory = shapes.evaluate(shapes.save(tmp_path / "headed", class_head=True))
    images = noise(3, 7, 5)
    law = load(directory, device="cpu").classify(images, by_bits=True)
    sent = {"image": [text(encode(image)) for image in images]}
    with (
        serve(directory, "--slots", "2", "--max-images-per-request", "21") as server,
        server.client() as client,
    ):
        full = post(client, CLASSIFICATIONS, **sent, by_bits=True)
        cheap = post(client, CLASSIFICATIONS, **sent)
        too_many = client.post(CLASSIFICATIONS, json={"image": sent["image"] * 2, "by_bits": True})
        assert_refused(too_many, 400, "image", "invalid_value")
        assert "each counted twice for each class and once for the class head" in too_many.text
        assert len(post(client, CLASSIFICATIONS, image=sent["image"] * 7)["data"]) == 21
    assert (full["read_by"], cheap["read_by"]) == ("head", "head")
    by_bits = "posterior_by_bits", "bits_per_dim", "any_class_bits_per_dim"
    for row, (one, other) in enumerate(zip(full["data"], cheap["data"], strict=True)):
        assert one["class"] == law.best[row]
        assert_array_equal([*one["posterior"].values()], law.posterior[row])
        assert_array_equal([*one["posterior_by_bits"].values()], law.posterior_by_bits[row])
        assert one["bits_per_dim"].keys() == one["posterior"].keys()
        assert other == one | dict.fromkeys(by_bits)
