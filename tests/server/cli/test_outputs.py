"""What is written: never over an input or among the pictures of another run, and
with the classes that are known.
"""

import os

import numpy as np
import pytest

from scanline.model.images.saving import save_images
from scanline.model.inference import load
from tests.support import shapes
from tests.support.commands import done, refused, scanline
from tests.support.pictures import encode, noise


@pytest.fixture
def model(tmp_path):
    """7 x 5 grey pixels, of the classes circle, square and star."""
    return shapes.save(tmp_path / "model")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with a.png, b.png, c.npy, m.png and d.scan, an
    archive's name with pictures in it.
    """
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, image in zip(("a.png", "b.png", "m.png"), noise(3, 7, 5), strict=True):
        (folder / name).write_bytes(encode(image))
    np.save(folder / "c.npy", noise(2, 7, 5))
    (folder / "link").symlink_to("a.png")
    (folder / "hard").hardlink_to(folder / "a.png")
    (folder / "up").symlink_to(folder)
    monkeypatch.chdir(folder)
    return folder


def test_two_runs_are_not_mixed_in_a_folder(model, tmp_path):
    out = tmp_path / "many"
    sample = f"sample --model {model} --class none --out {out}".split()
    done(*sample, "-n", 3)
    mixed = f"{out} has pictures of another run, 0.png and 2 more; give another folder, or empty it"
    assert refused(*sample, "-n", 12) == mixed
    with pytest.raises(ValueError, match=r"has pictures of another run, 0\.png and 2 more"):
        save_images(noise(12, 7, 5), out)
    done(*sample, "-n", 5)  # replaces all of them
    assert sorted(os.listdir(out)) == [f"{number}.png" for number in range(5)]
    assert "has pictures of another run, 3.png and 1 more" in refused(*sample, "-n", 3)
    (out / "scan.JPG").touch()
    assert "has pictures of another run, scan.JPG;" in refused(*sample, "-n", 5)


def _sampled(model, out):
    done(*f"sample --model {model} --each-class -n 1 --out {out}".split())


def _saved(model, out):
    images = load(model, device="cpu").sample(class_name=["circle", "square", "star"])
    images.save(out)


@pytest.mark.parametrize("write", [_sampled, _saved])
@pytest.mark.parametrize(
    ("name", "table"), [("each", "each/classes.csv"), ("each.npy", "each.classes.csv")]
)
def test_classes_go_with_images(model, folder, write, name, table):
    write(model, folder / name)
    classes = folder / table
    assert classes.read_text().replace(".png", "") == "image,class\n0,circle\n1,square\n2,star\n"
    done(*f"sample --model {model} --class none -n 3 --out {folder / name}".split())
    assert not classes.exists()


def test_classes_that_codes_say_go_with_their_images(model, folder):
    done(*f"sample --model {model} --class star -n 2 --seed 1 --out stars.npy".split())
    done(*f"compress stars.npy --model {model} --class star --images-a-code 1 -o a.scan".split())
    said = "classes.csv: it is the table of the classes of pictures that scanline has written"
    for number in (1, 0):  # in parts, whose table is one
        done(*f"decompress a.scan --model {model} --images {number} -o out".split())
    assert (folder / "out/classes.csv").read_text() == "image,class\n0.png,star\n1.png,star\n"
    assert said in scanline("compress", "out", "--model", model).err


def test_a_table_of_somebody_else_is_not_replaced(model, folder):
    (folder / "any.classes.csv").write_text("name,grade\nAda,1\n")
    said = refused(*f"sample --model {model} --out any.npy".split())
    assert "is not a table of classes that scanline wrote" in said
