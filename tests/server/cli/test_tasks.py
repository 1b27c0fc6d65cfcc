"""scanline sample, complete, score and classify: what Python gives, in the
form that the command line asks for.
"""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from scanline.model.inference import load
from tests.support import shapes
from tests.support.commands import done, scanline
from tests.support.pictures import encode, film_frames, noise
from tests.support.server.json_requests import HOLE, IMAGE, NOISY

KNOWN = HOLE == 255
GUIDED = {"class": "Box", "guidance": 2.5}
STAR = {"class": "Star", "particles": 4}


@pytest.fixture
def directory(tmp_path):
    """A model of three classes, which can be guided."""
    return shapes.save(tmp_path / "guided", shapes.GUIDED)


@pytest.fixture
def plain(tmp_path):
    """A model of three classes."""
    return shapes.save(tmp_path / "shapes")


@pytest.fixture
def picture(tmp_path):
    return saved(tmp_path, IMAGE)[0]


def saved(folder, *images):
    folder.mkdir(exist_ok=True)
    files = []
    for index, image in enumerate(images):
        files.append(folder / f"{index}.png")
        files[-1].write_bytes(encode(image))
    return files


def options(asked):
    """The same options as words of a command, and as arguments in Python."""
    words = [part for name, value in asked.items() for part in (f"--{name}", value)]
    arguments = {name: value for name, value in asked.items() if name != "backend"}
    if "class" in arguments:
        arguments["class_name"] = arguments.pop("class")
    return words, arguments


def opened(path):
    return np.asarray(Image.open(path).convert("L"))


def as_json(*command):
    return json.loads(done(*command, "--json"))


@pytest.mark.parametrize("name", ["sheet.webp", "SHEET.PNG", "digits.npy", "film.gif"])
def test_a_file_is_that_of_python(tmp_path, grey_directory, name):
    words, film = options({"frames": 3, "scale": 2} if name == "film.gif" else {})
    command = ("sample", "--model", grey_directory, "-n", 5, "--seed", 3)
    done(*command, *words, "--out", tmp_path / name)
    (tmp_path / "python").mkdir()
    load(grey_directory, device="cpu").sample(5, seed=3).save(tmp_path / "python" / name, **film)
    assert (tmp_path / name).read_bytes() == (tmp_path / "python" / name).read_bytes()


def test_a_folder_has_a_picture_for_each_and_a_film_32_frames(tmp_path, grey_directory):
    command = ("sample", "--model", grey_directory, "-n", 5, "--seed", 3, "--out")
    done(*command, f"{tmp_path / 'digits'}/")
    done(*command, tmp_path / "digits.npy")
    pictures = [opened(file) for file in sorted((tmp_path / "digits").iterdir())]
    assert_array_equal(pictures, np.load(tmp_path / "digits.npy"))
    done(*command, tmp_path / "film.webp", "--film")
    frames, _ = film_frames((tmp_path / "film.webp").read_bytes())
    assert len(frames) == 32


@pytest.mark.parametrize(
    "asked", [{}, {"temperature": 0.5}, {"backend": "eager"}, GUIDED, {"class": "any"}], ids=str
)
def test_options_are_handed_on_and_json_reports_the_images(tmp_path, directory, asked):
    words, arguments = options(asked)
    out = tmp_path / "images.npy"
    result = as_json("sample", "--model", directory, *words, "-n", 9, "--out", out)
    model = load(directory, device="cpu", backend=asked.get("backend", "auto"))
    expected = model.sample(9, seed=result["seed"], **arguments)
    assert_array_equal(np.load(out), expected.array)
    assert result.pop("classes", []) == [*expected.classes]
    assert result == {
        "out": str(out),
        "n": 9,
        "seed": expected.seed,
        "bits_per_dim": expected.bits_per_dim.tolist(),
        "temperature": expected.temperature,
        "guidance": expected.guidance,
    }


def test_images_are_inverted_as_they_are_written(tmp_path, plain):
    command = ("sample", "--model", plain, "-n", 3, "--seed", 3, "--out")
    for name in ("images.npy", "sheet.png"):
        done(*command, tmp_path / name)
        done(*command, tmp_path / f"inverted-{name}", "--invert")
    inverted = np.load(tmp_path / "inverted-images.npy")
    assert_array_equal(inverted, 255 - np.load(tmp_path / "images.npy"))
    assert inverted.dtype == np.uint8
    first, own = opened(tmp_path / "inverted-sheet.png"), opened(tmp_path / "sheet.png")
    assert_array_equal(first[:7, :5], 255 - own[:7, :5])


def test_each_class_has_the_images_that_it_has_alone(tmp_path, directory):
    model = load(directory, device="cpu")
    command = ("sample", "--model", directory, "--each-class", "-n", 2, "--seed", 3)
    result = as_json(*command, "--out", tmp_path / "all.npy")
    rows = [model.sample(2, class_name=name, seed=3).array for name in model.class_names]
    assert_array_equal(np.load(tmp_path / "all.npy"), np.concatenate(rows))
    assert result["classes"] == ["circle", "circle", "square", "square", "star", "star"]
    assert result["n"] == 6
    done(*command, "--out", tmp_path / "all.png")
    # too low for names
    assert_array_equal(opened(tmp_path / "all.png"), np.block([[*row] for row in rows]))
    done("sample", "--model", directory, "--each-class", "--out", tmp_path / "all.npy")
    # ten of each, where no number is given
    assert np.load(tmp_path / "all.npy").shape == (30, 7, 5)


def test_kept_pixels_are_kept_and_a_sheet_goes_from_occluded_to_original(
    tmp_path, grey_directory, picture
):
    command = ("complete", "--model", grey_directory, "-n", 3, "--seed", 4)
    out = tmp_path / "completions.npy"
    (tmp_path / "hole.png").write_bytes(encode(np.dstack((IMAGE, HOLE))))
    done(*command, tmp_path / "hole.png", "--out", out)  # its own alpha is the mask
    assert_array_equal(np.load(out)[:, KNOWN], [IMAGE[KNOWN]] * 3)
    rows = (*command, picture, "--keep-rows", 4, "--out")
    done(*rows, out)
    assert_array_equal(np.load(out)[:, :4], [IMAGE[:4]] * 3)
    occluded = np.concatenate((IMAGE[:4], np.full((3, 5), 128, np.uint8)))
    row = np.hstack((occluded, *np.load(out), IMAGE))
    done(*rows, tmp_path / "sheet.png")
    assert_array_equal(opened(tmp_path / "sheet.png"), row)
    done(*rows, tmp_path / "film.webp", "--frames", 2, "--scale", 1)
    frames, _ = film_frames((tmp_path / "film.webp").read_bytes())
    assert_array_equal(frames[..., 0], [np.hstack((*[occluded] * 4, IMAGE)), row])


@pytest.mark.parametrize(
    "asked", [{}, {"particles": 8}, STAR, GUIDED, {"backend": "eager"}], ids=str
)
def test_options_are_handed_on_and_the_numbers_of_completions_reported(tmp_path, directory, asked):
    words, arguments = options(asked)
    image, mask = saved(tmp_path, IMAGE, HOLE)
    out = tmp_path / "completions.npy"
    command = ("complete", image, "--mask", mask, "--model", directory, *words, "-n", 2)
    command += ("--seed", 4, "--out", out)
    result = as_json(*command)
    model = load(directory, device="cpu", backend=asked.get("backend", "auto"))
    expected = model.complete(IMAGE, mask=KNOWN, n=2, seed=4, **arguments)
    assert_array_equal(np.load(out), expected.array)
    assert (result["out"], result["n"], result["seed"]) == (str(out), 2, 4)
    assert result.get("class") == (expected.classes[0] if expected.classes else None)
    particles = asked.get("particles", 1 if "guidance" in asked else 16)
    assert (result["guidance"], result["particles"]) == (expected.guidance, particles)
    for name in ("bits_per_dim", "evidence_bits", "effective_particles"):
        assert result[name] == getattr(expected, name).tolist()
    words = f", {expected.evidence_bits.mean():.2f} bits for the known pixels"
    if particles > 1:
        least = expected.effective_particles.min()
        words += f", at least {least:.1f} of {particles} particles effective"
    assert done(*command).endswith(f"{words}\n")


@pytest.mark.parametrize("name", [None, "circle"])
def test_the_bits_of_each_picture_are_printed(tmp_path, plain, name):
    images = noise(2, 7, 5)
    files = saved(tmp_path / "pictures", *images)
    law = load(plain, device="cpu").score(images, class_name=name).tolist()
    command = ("score", "--model", plain, *(("--class", "Disc") if name else ()))
    rows = as_json(*command, *files)["data"]
    assert [row["picture"] for row in rows] == [*map(str, files)]
    assert [row["bits_per_dim"] for row in rows] == law
    assert [row["noisy"] for row in rows] == [False, False]
    mean = f"mean {np.mean(law):.4f} +- {np.std(law, ddof=1) / 2**0.5:.4f} bits/dim (2 images)"
    lines = [f"{bits:.4f}  {file}" for bits, file in zip(law, files, strict=True)]
    # a folder: its pictures by name
    assert done(*command, tmp_path / "pictures").splitlines() == [*lines, mean]


@pytest.mark.parametrize("option", ["--mask", "--keep-rows"])
def test_known_pixels_are_scored_with_their_standard_error(grey_directory, tmp_path, option):
    file, mask = saved(tmp_path, IMAGE, HOLE)
    is_masked = option == "--mask"
    command = ("score", "--model", grey_directory, file, option, mask if is_masked else 3)
    command += ("--seed", 5, "--particles", 4, "--repeats", 3)
    found = as_json(*command)
    known = {"mask": KNOWN} if is_masked else {"keep_rows": 3}
    model = load(grey_directory, device="cpu")
    law = model.score_known(IMAGE, **known, particles=4, repeats=3, seed=5)
    row = {
        "picture": str(file),
        "bits_per_dim": law.bits_per_dim,
        "standard_error": law.standard_error_per_dim,
        "known_bytes": 29 if is_masked else 15,
        "particles": 4 if is_masked else 1,
    }
    assert (found["seed"], found["data"]) == (5, [row])
    assert (law.standard_error_per_dim > 0) == is_masked
    line = f"{law.bits_per_dim:.4f} +/- {law.standard_error_per_dim:.4f}  {file}\n"
    assert done(*command) == line


def test_the_best_class_its_probability_and_the_bits_under_every_class(tmp_path, plain):
    model = load(plain, device="cpu")
    images = [model.sample(1, class_name=name, seed=2).array[0] for name in model.class_names]
    files = saved(tmp_path / "pictures", *images)
    law = model.classify(images)
    shares = law.posterior.max(axis=1)
    lines = "".join(
        f"{name}  {share:.4f}  {file}\n"
        for name, share, file in zip(law.best, shares, files, strict=True)
    )
    command = ("classify", "--model", plain)
    assert done(*command, *files) == lines
    assert done(*command, tmp_path / "pictures") == lines  # a folder: by name
    for index, row in enumerate(as_json(*command, *files)["data"]):
        assert (row["picture"], row["class"]) == (str(files[index]), law.best[index])
        assert [*row["probabilities"]] == [*row["bits_per_dim"]] == [*model.class_names]
        posterior = [*row["probabilities"].values()]
        assert posterior == pytest.approx(law.posterior[index], rel=1e-6)
        bits = [*row["bits_per_dim"].values()]
        assert bits == pytest.approx(law.bits[index] / 35, rel=1e-6)
        assert (row["read_by"], row["probabilities_by_bits"]) == ("bits", row["probabilities"])


def test_the_answer_of_a_class_head_comes_first_and_bits_are_read_where_they_are_asked_for(
    tmp_path, picture
):
    directory = shapes.save(tmp_path / "headed", class_head=True)
    law = load(directory, device="cpu").classify(IMAGE, by_bits=True)
    command = ("classify", "--model", directory, picture)
    line = f"{law.best[0]}  {law.posterior.max():.4f}  {picture}"
    assert done(*command) == f"{line}\n"
    name = law.class_names[law.posterior_by_bits.argmax()]
    by_bits = f"  by bits: {name}  {law.posterior_by_bits.max():.4f}"
    assert done(*command, "--by-bits") == f"{line}{by_bits}\n"
    (row,) = as_json(*command)["data"]
    assert (row["read_by"], row["class"], row["bits_per_dim"]) == ("head", law.best[0], None)


def test_noise_is_removed_and_a_picture_unlike_the_test_images_is_marked(tmp_path, plain):
    shapes.evaluate(plain)
    model = load(plain, device="cpu")
    clean = np.where(NOISY == 3, 0, 254).astype(np.uint8)
    file, clean_file, inverted = saved(tmp_path, NOISY, clean, 255 - NOISY)
    law = model.classify(NOISY)
    command = ("classify", "--model", plain)
    line = f"{law.best[0]}  {law.posterior.max():.4f}  {file}  with noise\n"
    assert done(*command, file) == line
    unlike = "unlike what the model knows (p <= "
    # without noise, and not a test image
    assert done(*command, clean_file).startswith(f"-  -  {clean_file}  {unlike}")
    assert done(*command, inverted, "--clean", "off").startswith(f"-  -  {inverted}  {unlike}")
    (row,) = as_json(*command, file, "--clean", "off")["data"]
    assert row["typical"] is False
    assert row["tail_probability"] == pytest.approx(law.tail_probabilities[0])
    bits = model.classify(NOISY, clean="off").bits[0] / 35
    assert [*row["bits_per_dim"].values()] == pytest.approx(bits, rel=1e-6)
    words = f"{file}  {unlike}{law.tail_probabilities[0]:.4f})"
    assert done("score", "--model", plain, file).endswith(f"{words}\n")


def test_a_folder_becomes_a_figure_with_a_labelled_row_for_each_picture(
    tmp_path, grey_directory, picture
):
    folder = tmp_path / "pictures"
    saved(folder, IMAGE, IMAGE)
    command = ("complete", "--model", grey_directory, "-n", 3, "--seed", 4, "--keep-rows", 4)
    done(*command, folder, "--scale", 3, "--out", tmp_path / "plain.png")
    done(*command, folder, "--scale", 3, "--labels", "--out", tmp_path / "labelled.png")
    done(*command, picture, "--out", tmp_path / "alone.npy")
    figure = opened(tmp_path / "plain.png")
    labelled = opened(tmp_path / "labelled.png")
    assert figure.shape == (2 * 21 + 3, 5 * 15 + 4 * 3)  # gaps of 3 pixels
    assert (figure[21:24] == 255).all()
    # beside a second
    alone = np.load(tmp_path / "alone.npy")[0]
    assert_array_equal(figure[:21, 18:33], alone.repeat(3, 0).repeat(3, 1))
    height, width = figure.shape
    assert_array_equal(labelled[-height:, -width:], figure)
    assert labelled.min() < 128 < labelled.max() == 255


def test_a_file_that_cannot_be_read_is_left_out_and_an_array_of_another_size_is_named(
    tmp_path, plain
):
    folder = tmp_path / "pictures"
    saved(folder, IMAGE)
    (folder / "2.png").symlink_to("/proc/self/mem")  # which fails to be read, for root too
    ran = scanline("score", folder, "--model", plain)
    reason = f"1 left out: {folder}/2.png: it cannot be read: Input/output error\n"
    assert (ran.status, ran.err) == (1, reason)
    np.save(folder / "3.npy", noise(2, 9, 8))
    ran = scanline("score", folder, "--model", plain)
    assert ran.err.endswith(f"{folder}/3.npy:0 is 8x9; the model needs exactly 5x7.\n")


def test_a_folder_is_read_by_what_its_files_are_and_what_is_left_out_is_said(tmp_path, plain):
    folder = tmp_path / "pictures"
    folder.mkdir()
    images = noise(4, 7, 5)
    (folder / "1.jfif").write_bytes(encode(images[0]))
    (folder / "2").write_bytes(encode(images[1]))
    (folder / "10.TIF").write_bytes(encode(images[2], "TIFF"))
    np.savez(folder / "more.npz", images=images[3:])
    (folder / "notes.txt").write_text("?")
    ran = scanline("score", folder, "--model", plain)
    assert (ran.status, ran.err) == (0, f"1 left out: {folder}/notes.txt: it is not a picture\n")
    law = load(plain, device="cpu").score(images)
    names = ("1.jfif", "2", "10.TIF", "more.npz:0")
    lines = [f"{bits:.4f}  {folder / name}" for bits, name in zip(law, names, strict=True)]
    assert ran.out.splitlines()[:4] == lines
    (folder / "half.png").write_bytes(encode(images[0])[:60])
    left_out = [
        {
            "file": f"{folder}/half.png",
            "reason": "it is a broken picture: image file is truncated",
        },
        {"file": f"{folder}/notes.txt", "reason": "it is not a picture"},
    ]
    completing = ("complete", "--keep-rows", 3, "-n", 1, "--out", tmp_path / "a.npy")
    for command in (("score",), ("classify",), completing):
        ran = scanline(*command, folder, "--model", plain, "--json")
        found = json.loads(ran.out)
        assert (ran.status, found["left_out"]) == (1, left_out)
        assert len(found.get("data", range(found.get("n", 0)))) == 4
