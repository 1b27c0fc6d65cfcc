"""scanline sample, complete, score and classify: what Python gives, in the
form that the command line asks for.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scanline.model.inference import Model, load
from tests.support import shapes
from tests.support.commands import done, refused, scanline
from tests.support.pictures import encode, film_frames, noise
from tests.support.server.json_requests import HOLE, IMAGE, NOISY

Command = tuple[object, ...]


@pytest.fixture
def sample(grey_directory: Path) -> Command:
    """The command, but for where the images go."""
    return ("sample", "--model", grey_directory, "-n", 5, "--seed", 3, "--out")


@pytest.fixture
def complete(grey_directory: Path, tmp_path: Path) -> Command:
    (tmp_path / "picture.png").write_bytes(encode(IMAGE))
    return ("complete", "--model", grey_directory, "-n", 3, "--seed", 4, "--out")


def guided_by(asked: dict[str, Any], folder: Path) -> tuple[Command, Model, dict[str, Any]]:
    """The model and the options of a command, and the same in Python."""
    directory = shapes.save(folder / "shapes", shapes.GUIDED)
    given = [part for name, value in asked.items() for part in (f"--{name}", value)]
    how = {
        "class_name" if name == "class" else name: value
        for name, value in asked.items()
        if name != "backend"
    }
    return (
        ("--model", directory, *given),
        load(directory, device="cpu", backend=asked.get("backend", "auto")),
        how,
    )


@pytest.mark.parametrize("name", ["sheet.webp", "SHEET.PNG", "digits.npy", "film.gif"])
def test_a_file_is_that_of_python(
    tmp_path: Path, sample: Command, grey_directory: Path, name: str
) -> None:
    film = {"frames": 3, "scale": 2} if name == "film.gif" else {}
    done(
        *sample,
        tmp_path / name,
        *(part for key, value in film.items() for part in (f"--{key}", value)),
    )
    (tmp_path / "python").mkdir()
    load(grey_directory, device="cpu").sample(5, seed=3).save(tmp_path / "python" / name, **film)
    assert (tmp_path / name).read_bytes() == (tmp_path / "python" / name).read_bytes()


def test_a_folder_has_a_picture_for_each_and_a_film_32_frames(
    tmp_path: Path, sample: Command
) -> None:
    for out in (f"{tmp_path / 'digits'}/", tmp_path / "digits.npy"):
        done(*sample, out)
    pictures = [np.asarray(Image.open(file)) for file in sorted((tmp_path / "digits").iterdir())]
    np.testing.assert_array_equal(pictures, np.load(tmp_path / "digits.npy"))
    done(*sample, tmp_path / "film.webp", "--film")
    assert len(film_frames((tmp_path / "film.webp").read_bytes())[0]) == 32


GUIDED = {"class": "Box", "guidance": 2.5}


@pytest.mark.parametrize(
    "asked", [{}, {"temperature": 0.5}, {"backend": "eager"}, GUIDED, {"class": "any"}], ids=str
)
def test_options_are_handed_on_and_json_reports_the_images(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    given, model, how = guided_by(asked, tmp_path)
    out = tmp_path / "images.npy"
    result = json.loads(done("sample", *given, "-n", 9, "--out", out, "--json"))
    expected = model.sample(9, seed=result["seed"], **how)
    np.testing.assert_array_equal(np.load(out), expected.array)
    said = {
        "out": str(out),
        "n": 9,
        "seed": expected.seed,
        "bits_per_dim": expected.bits_per_dim.tolist(),
    }
    classes = {"classes": [*expected.classes]} if expected.classes else {}
    assert result == {
        **said,
        "temperature": expected.temperature,
        "guidance": expected.guidance,
        **classes,
    }


def test_images_are_inverted_as_they_are_written(tmp_path: Path) -> None:
    given = ("sample", "--model", shapes.save(tmp_path / "shapes"), "-n", 3, "--seed", 3)
    for name in ("images.npy", "sheet.png"):
        done(*given, "--out", tmp_path / name)
        done(*given, "--out", tmp_path / f"inverted-{name}", "--invert")
    own = np.load(tmp_path / "images.npy")
    inverted = np.load(tmp_path / "inverted-images.npy")
    np.testing.assert_array_equal(inverted, 255 - own)
    assert inverted.dtype == np.uint8
    sheet = np.asarray(Image.open(tmp_path / "inverted-sheet.png"))
    np.testing.assert_array_equal(
        sheet[:7, :5], 255 - np.asarray(Image.open(tmp_path / "sheet.png"))[:7, :5]
    )
    with_cluster = refused(
        "sample", "--cluster", "127.0.0.1:1", "--invert", "--out", tmp_path / "out"
    )
    assert (
        with_cluster
        == "--invert is for images that this machine paints; leave it out with --cluster"
    )


def test_each_class_has_the_images_that_it_has_alone(tmp_path: Path) -> None:
    given, model, _ = guided_by({}, tmp_path)
    command = ("sample", *given, "--each-class", "-n", 2, "--seed", 3, "--json")
    result = json.loads(done(*command, "--out", tmp_path / "all.npy"))
    expected = np.stack(
        [model.sample(2, class_name=name, seed=3).array for name in model.class_names]
    )
    np.testing.assert_array_equal(np.load(tmp_path / "all.npy"), expected.reshape(6, 7, 5))
    assert result["classes"] == ["circle", "circle", "square", "square", "star", "star"]
    assert result["n"] == 6
    done(*command, "--out", tmp_path / "all.png")
    sheet = np.asarray(Image.open(tmp_path / "all.png").convert("L"))
    # too low for names
    np.testing.assert_array_equal(sheet, np.block([[*row] for row in expected]))
    done("sample", *given, "--each-class", "--out", tmp_path / "all.npy")
    # ten of each, where no number is given
    assert np.load(tmp_path / "all.npy").shape == (30, 7, 5)


def test_kept_pixels_are_kept_and_a_sheet_goes_from_occluded_to_original(
    tmp_path: Path, complete: Command
) -> None:
    (tmp_path / "hole.png").write_bytes(encode(np.dstack((IMAGE, HOLE))))
    out = tmp_path / "completions.npy"
    known = HOLE == 255
    done(*complete, out, tmp_path / "hole.png")  # its own alpha is the mask
    np.testing.assert_array_equal(np.load(out)[:, known], np.stack([IMAGE[known]] * 3))
    kept = (tmp_path / "picture.png", "--keep-rows", 4)
    done(*complete, out, *kept)
    done(*complete, tmp_path / "sheet.png", *kept)
    completions = np.load(out)
    np.testing.assert_array_equal(completions[:, :4], np.stack([IMAGE[:4]] * 3))
    occluded = np.concatenate((IMAGE[:4], np.full((3, 5), 128, np.uint8)))
    row = np.hstack((occluded, *completions, IMAGE))
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "sheet.png")), row)
    done(*complete, tmp_path / "film.webp", *kept, "--frames", 2, "--scale", 1)
    frames, _ = film_frames((tmp_path / "film.webp").read_bytes())
    np.testing.assert_array_equal(frames[..., 0], [np.hstack((*[occluded] * 4, IMAGE)), row])


STAR = {"class": "Star", "particles": 4}


@pytest.mark.parametrize(
    "asked", [{}, {"particles": 8}, STAR, GUIDED, {"backend": "eager"}], ids=str
)
def test_options_are_handed_on_and_the_numbers_of_completions_reported(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    given, model, how = guided_by(asked, tmp_path)
    files = (tmp_path / "picture.png", tmp_path / "mask.png")
    out = tmp_path / "completions.npy"
    for file, picture in zip(files, (IMAGE, HOLE), strict=True):
        file.write_bytes(encode(picture))
    command = ("complete", files[0], "--mask", files[1], *given, "-n", 2, "--seed", 4, "--out", out)
    result = json.loads(done(*command, "--json"))
    expected = model.complete(IMAGE, mask=HOLE == 255, n=2, seed=4, **how)
    np.testing.assert_array_equal(np.load(out), expected.array)
    assert (result["out"], result["n"], result["seed"]) == (str(out), 2, 4)
    assert result.get("class") == (expected.classes[0] if expected.classes else None)
    particles = asked.get("particles", 1 if "guidance" in asked else 16)
    assert (result["guidance"], result["particles"]) == (expected.guidance, particles)
    for name in ("bits_per_dim", "evidence_bits", "effective_particles"):
        assert result[name] == getattr(expected, name).tolist()
    assert expected.evidence_bits is not None
    assert expected.effective_particles is not None
    words = f", {expected.evidence_bits.mean():.2f} bits for the known pixels"
    if particles > 1:
        words += f", at least {expected.effective_particles.min():.1f} of {particles} particles effective"
    assert done(*command).endswith(f"{words}\n")


def saved(folder: Path, *images: np.ndarray) -> list[Path]:
    folder.mkdir(exist_ok=True)
    files = [folder / f"{index}.png" for index in range(len(images))]
    for file, image in zip(files, images, strict=True):
        file.write_bytes(encode(image))
    return files


@pytest.mark.parametrize("name", [None, "circle"])
def test_the_bits_of_each_picture_are_printed(tmp_path: Path, name: str | None) -> None:
    directory = shapes.save(tmp_path / "shapes")
    images = noise(2, 7, 5)
    files = saved(tmp_path / "pictures", *images)
    law = load(directory, device="cpu").score(images, class_name=name).tolist()
    command = ("score", "--model", directory, *(("--class", "Disc") if name else ()))
    rows = [
        {"picture": str(file), "bits_per_dim": x, "noisy": False}
        for file, x in zip(files, law, strict=True)
    ]
    assert json.loads(done(*command, *files, "--json")) == {"data": rows}
    lines = done(*command, tmp_path / "pictures").splitlines()  # a folder: its pictures by name
    mean = f"mean {np.mean(law):.4f} +- {np.std(law, ddof=1) / 2**0.5:.4f} bits/dim (2 images)"
    assert lines == [*(f"{row['bits_per_dim']:.4f}  {row['picture']}" for row in rows), mean]


@pytest.mark.parametrize("option", ["--mask", "--keep-rows"])
def test_known_pixels_are_scored_with_their_standard_error(
    grey_directory: Path, tmp_path: Path, option: str
) -> None:
    file, mask = saved(tmp_path, IMAGE, HOLE)
    is_masked = option == "--mask"
    command = (
        "score",
        "--model",
        grey_directory,
        file,
        option,
        mask if is_masked else 3,
        "--seed",
        5,
    )
    command += ("--particles", 4, "--repeats", 3)
    found = json.loads(done(*command, "--json"))
    known = {"mask": HOLE == 255} if is_masked else {"keep_rows": 3}
    law = load(grey_directory, device="cpu").score_known(
        IMAGE, **known, particles=4, repeats=3, seed=5
    )
    (row,) = found["data"]
    assert found["seed"] == 5
    assert row == {
        "picture": str(file),
        "bits_per_dim": law.bits_per_dim,
        "standard_error": law.standard_error_per_dim,
        "known_bytes": 29 if is_masked else 15,
        "particles": 4 if is_masked else 1,
    }
    assert (row["standard_error"] > 0) == is_masked
    assert (
        done(*command) == f"{law.bits_per_dim:.4f} +/- {law.standard_error_per_dim:.4f}  {file}\n"
    )


def test_the_best_class_its_probability_and_the_bits_under_every_class(tmp_path: Path) -> None:
    directory = shapes.save(tmp_path / "shapes")
    model = load(directory, device="cpu")
    images = np.concatenate(
        [model.sample(1, class_name=name, seed=2).array for name in model.class_names]
    )
    files = saved(tmp_path / "pictures", *images)
    law = model.classify(images)
    lines = done("classify", "--model", directory, *files).splitlines()
    best = law.posterior.max(axis=1)
    assert lines == [
        f"{name}  {share:.4f}  {file}"
        for name, share, file in zip(law.best, best, files, strict=True)
    ]
    # a folder: by name
    assert done("classify", "--model", directory, tmp_path / "pictures").splitlines() == lines
    rows = json.loads(done("classify", "--model", directory, *files, "--json"))["data"]
    assert [(row["picture"], row["class"]) for row in rows] == [
        *zip(map(str, files), law.best, strict=True)
    ]
    for row, posterior, bits in zip(rows, law.posterior, law.bits / 35, strict=True):
        assert [*row["probabilities"]] == [*row["bits_per_dim"]] == list(model.class_names)
        assert [*row["probabilities"].values()] == pytest.approx(posterior, rel=1e-6)
        assert [*row["bits_per_dim"].values()] == pytest.approx(bits, rel=1e-6)
        assert (row["read_by"], row["probabilities_by_bits"]) == ("bits", row["probabilities"])


def test_the_answer_of_a_class_head_comes_first_and_bits_are_read_where_they_are_asked_for(
    tmp_path: Path,
) -> None:
    directory = shapes.save(tmp_path / "headed", class_head=True)
    file = tmp_path / "noise.png"
    image = noise(1, 7, 5)
    file.write_bytes(encode(image[0]))
    law = load(directory, device="cpu").classify(image, by_bits=True)
    assert law.posterior_by_bits is not None
    line = f"{law.best[0]}  {law.posterior.max():.4f}  {file}"
    assert done("classify", "--model", directory, file) == f"{line}\n"
    name = law.class_names[law.posterior_by_bits.argmax()]
    by_bits = f"  by bits: {name}  {law.posterior_by_bits.max():.4f}"
    assert done("classify", "--model", directory, file, "--by-bits") == f"{line}{by_bits}\n"
    (row,) = json.loads(done("classify", "--model", directory, file, "--json"))["data"]
    assert (row["read_by"], row["class"], row["bits_per_dim"]) == ("head", law.best[0], None)


def test_noise_is_removed_and_a_picture_unlike_the_test_images_is_marked(tmp_path: Path) -> None:
    directory, (file,) = shapes.evaluate(shapes.save(tmp_path / "shapes")), saved(tmp_path, NOISY)
    model = load(directory, device="cpu")
    law = model.classify(NOISY)
    words = f"unlike what the model knows (p <= {law.tail_probabilities[0]:.4f})"
    line = f"{law.best[0]}  {law.posterior.max():.4f}  {file}  with noise\n"
    assert done("classify", "--model", directory, file) == line
    (tmp_path / "clean.png").write_bytes(encode(np.where(NOISY == 3, 0, 254).astype(np.uint8)))
    # without noise, and not a test image
    said = done("classify", "--model", directory, tmp_path / "clean.png")
    assert said.startswith(f"-  -  {tmp_path / 'clean.png'}  unlike what the model knows (p <= ")
    Image.open(file).point(lambda value: 255 - value).save(tmp_path / "inverted.png")
    said = done("classify", "--model", directory, tmp_path / "inverted.png")
    assert said.startswith(f"-  -  {tmp_path / 'inverted.png'}  unlike what the model knows (p <= ")
    assert said.endswith(
        "): it is dark on light, and the model's images are light on dark; try --invert\n"
    )
    said = done("classify", "--model", directory, tmp_path / "inverted.png", "--invert")
    assert said == line.replace(str(file), str(tmp_path / "inverted.png"))
    (row,) = json.loads(done("classify", "--model", directory, file, "--clean", "off", "--json"))[
        "data"
    ]
    assert (row["typical"], row["tail_probability"]) == (
        False,
        pytest.approx(law.tail_probabilities[0]),
    )
    assert [*row["bits_per_dim"].values()] == pytest.approx(
        (model.classify(NOISY, clean="off").bits / 35)[0], rel=1e-6
    )
    assert done("score", "--model", directory, file).endswith(f"{file}  {words}\n")


def test_a_folder_becomes_a_figure_with_a_labelled_row_for_each_picture(
    tmp_path: Path, complete: Command
) -> None:
    picture = tmp_path / "picture.png"
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("b", "a"):
        (folder / f"{name}.png").write_bytes(picture.read_bytes())
    plain, labelled, alone = (
        tmp_path / name for name in ("plain.png", "labelled.png", "alone.npy")
    )
    done(*complete, plain, folder, "--keep-rows", 4, "--scale", 3)
    done(*complete, labelled, folder, "--keep-rows", 4, "--scale", 3, "--labels")
    done(*complete, alone, picture, "--keep-rows", 4)
    figure = np.asarray(Image.open(plain))
    both = np.asarray(Image.open(labelled))
    assert figure.shape == (2 * 21 + 3, 5 * 15 + 4 * 3)  # gaps of 3 pixels
    assert (figure[21:24] == 255).all()
    # beside a second
    np.testing.assert_array_equal(figure[:21, 18:33], np.load(alone)[0].repeat(3, 0).repeat(3, 1))
    np.testing.assert_array_equal(both[-figure.shape[0] :, -figure.shape[1] :], figure)
    assert both.min() < 128 < both.max() == 255


def test_a_file_that_cannot_be_read_is_left_out_and_an_array_of_another_size_is_named(
    tmp_path: Path,
) -> None:
    directory = shapes.save(tmp_path / "shapes")
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "1.png").write_bytes(encode(noise(7, 5)))
    (folder / "2.png").symlink_to("/proc/self/mem")  # which fails to be read, for root too
    command = ("score", folder, "--model", directory)
    ran = scanline(*command)
    assert (ran.status, ran.err) == (
        1,
        f"1 left out: {folder}/2.png: it cannot be read: Input/output error\n",
    )
    np.save(folder / "3.npy", noise(2, 9, 8))
    assert refused(*command).endswith(f"{folder}/3.npy:0 is 8x9; the model needs exactly 5x7.")


def test_a_folder_is_read_by_what_its_files_are_and_what_is_left_out_is_said(
    tmp_path: Path,
) -> None:
    directory, (one, two, ten, eleven) = shapes.save(tmp_path / "shapes"), noise(4, 7, 5)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, image, kind in (("10.TIF", ten, "TIFF"), ("2", two, "PNG"), ("1.jfif", one, "PNG")):
        (folder / name).write_bytes(encode(image, kind))
    np.savez(folder / "more.npz", images=eleven[None])
    (folder / "notes.txt").write_text("?")
    command = ("score", folder, "--model", directory)
    ran = scanline(*command)
    assert (ran.status, ran.err) == (0, f"1 left out: {folder}/notes.txt: it is not a picture\n")
    names = [folder / name for name in ("1.jfif", "2", "10.TIF", "more.npz:0")]
    law = load(directory, device="cpu").score(np.stack((one, two, ten, eleven)))
    assert ran.out.splitlines()[:4] == [
        f"{bits:.4f}  {name}" for bits, name in zip(law, names, strict=True)
    ]
    (folder / "half.png").write_bytes(encode(one)[:60])
    for ran in (scanline(*command, "--json"), scanline("classify", *command[1:], "--json")):
        found = json.loads(ran.out)
        broken = {
            "file": f"{folder}/half.png",
            "reason": "it is a broken picture: image file is truncated",
        }
        assert (ran.status, len(found["data"])) == (1, 4)
        assert found["left_out"] == [
            broken,
            {"file": f"{folder}/notes.txt", "reason": "it is not a picture"},
        ]
    completed = scanline(
        "complete", *command[1:], "--keep-rows", 3, "-n", 1, "--out", tmp_path / "a.npy", "--json"
    )
    assert (
        completed.status,
        json.loads(completed.out)["n"],
        len(json.loads(completed.out)["left_out"]),
    ) == (1, 4, 2)
