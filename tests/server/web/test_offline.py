"""The page that `scanline export --page` writes, opened from its file: what it paints, completes
and codes, byte for byte, is what this machine does; so is what it reads, to the digits shown."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

import scanline
from scanline.model.formats.checkpoint import save_class_head
from scanline.model.formats.model_dir import write_evaluation
from scanline.model.images.cleaning import Cleaning
from scanline.model.images.framing import Frame
from scanline.model.images.recipe import read
from scanline.model.likelihood.typicality import LEVELS, Typicality
from scanline.model.network.class_head import QUANTILES
from tests.server.web.test_complete import choose_particles, hide, stroke, upload
from tests.server.web.test_compress import SAME
from tests.support import shapes, small_models
from tests.support.commands import done, refused
from tests.support.pictures import encode

PERCENT = "share => share.toLocaleString('en', { maximumSignificantDigits: 2 })"
UNKNOWN = "Unlike what the model knows: it names no class."
NO_HEAD = "Classes are read by a class head or by a server: this model has none, nor has this page."
NO_CANDIDATES = (
    "This page paints one candidate of each image: images that are chosen of several need a server."
)
CLASSES = (("7", "seven"), ("8", "eight"))
COLOUR = small_models.config(**small_models.VARIANTS["pixels"], classes=CLASSES)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The model's directory, and the address of its page."""
    root = tmp_path_factory.mktemp("offline")
    shapes.save(root / "colour", COLOUR)
    wrote = done(
        "export", "--page", root / "page", "--model", root / "colour", "--precision", "int8"
    )
    assert wrote.startswith(f"{root / 'page' / 'index.html'}: the page and colour in ")
    return root / "colour", (root / "page" / "index.html").as_uri()


@pytest.mark.compared(
    "a page of its own: pictures, a code, a completion", "this machine", "Chromium"
)
def test_it_paints_writes_and_codes(visit, exported, compared):
    directory, address = exported
    asked = "seed=7&temperature=0.9&guidance=1.5"
    visitor = visit(f"{address}?{asked}&n=3&class=any", done=3, reduced_motion="reduce")
    model = scanline.load(directory, precision="int8", device="cpu")
    options = {"seed": 7, "temperature": 0.9, "guidance": 1.5}
    any_class = model.sample(3, class_name="any", **options)
    assert np.array_equal(visitor.saved_images(), any_class.array)
    sheet = visitor.saved("#save-sheet")
    assert read(sheet.read_bytes())["digest"] == model.digest
    visitor.see("#open").set_input_files(sheet)
    visitor.expect_contains("#notice", " is opened: 3 images of any class, by colour, seed 7.")
    for tab in ("device", "how"):
        visitor.expect_hidden(f"#tab-{tab}")

    # The picture of a link is that of its code, which is this machine's.
    visitor.click("#tab-compress")
    visitor.expect_text("#coded-status", SAME)
    file = visitor.saved("#code-save").read_bytes()
    assert file == model.compress(any_class.array[:1], images_a_code=1)
    visitor.page.reload()
    visitor.expect_contains("#coded-status", "The link is this picture: its code of ")

    visitor.page.goto(f"{address}?{asked}&write=7887")
    visitor.page.reload()  # of the same file, an address of its own
    visitor.expect_done(4)
    written = model.sample(class_name=["7", "8", "8", "7"], **options)
    assert np.array_equal(visitor.saved_images(), written.array)
    visitor.click(".tile >> nth=0")
    visitor.click("#viewer-complete")
    visitor.expect_text("#live-status", "Four completions of this drawing.")
    seed = 5
    hide(visitor)
    choose_particles(visitor, 4)
    visitor.fill("#complete-count", "1")
    visitor.fill("#complete-seed", str(seed))
    visitor.click("#complete-form .primary")
    visitor.expect_done(1, "#complete-meter")
    given = visitor.pixels("#results canvas >> nth=2")[..., 3] > 0
    completed = model.complete(written.array[0], mask=given, seed=seed, particles=4)
    found = visitor.pixels("#results canvas >> nth=4")
    shown = completed.array.reshape(*found.shape[:2], -1)
    assert np.array_equal(found[..., :3], shown)
    compared(any_class.array, file, written.array, completed.array)


@pytest.mark.parametrize("precision", ["exact", "int8"])
def test_it_reads_pictures_by_the_class_head(visit, tmp_path, precision):
    """At int8, a head that knows how strange drawings are; else their bits say that."""
    directory = shapes.save(tmp_path / "shapes", shapes.GUIDED)
    head = small_models.class_head(shapes.GUIDED)
    if precision == "int8":
        head = replace(head, strange=head.matrix[0].repeat(2)[: len(head.mean) + 1])
        head = replace(head, quantiles=torch.linspace(-3, 3, QUANTILES))
    save_class_head(head, directory)
    per_dim = tuple(np.linspace(3, 13, len(LEVELS)))
    per_grey = tuple(np.linspace(10, 50, len(LEVELS)))
    typical = Typicality(1000, 0.005, per_dim, per_grey)
    cleaning = Cleaning(0, 254, Frame(4, 3.0, 2.0))
    parts = {"typical": typical.to_dict(), "clean": cleaning.to_dict()}
    write_evaluation(directory, {"precision": "exact", "bits_per_dim": 1.5, **parts})
    page = tmp_path / "page"
    done("export", "--page", page, "--model", directory, "--precision", precision)
    model = scanline.load(directory, precision=precision, device="cpu")
    visitor = visit(f"{(page / 'index.html').as_uri()}?seed=7&n=3", done=3, reduced_motion="reduce")
    found = model.classify(visitor.saved_images())
    assert found.typical.any()
    visitor.click(".tile >> nth=0")
    visitor.click("#what summary")
    for posterior, tail, best in zip(
        found.posterior, found.tail_probabilities, found.best, strict=True
    ):
        share = visitor.page.evaluate(PERCENT, 100 * tail)
        visitor.expect_contains("#unusual", f" {share} % of its test images")
        percents = [f"{100 * probability:.1f} %" for probability in posterior if best]
        expect(visitor.see("#posterior .figures")).to_have_text(percents)
        visitor.press("ArrowRight")
    visitor.click("#viewer-close")
    visitor.click("#tab-complete")
    upload(visitor, encode(np.full((7, 5), 200, np.uint8)))
    visitor.expect_text("#reading-says", UNKNOWN)


def test_what_needs_a_class_head_or_a_server_says_so(visit, exported):
    visitor = visit(f"{exported[1]}?seed=1&class=7&best_of=2", reduced_motion="reduce")
    visitor.expect_notice(NO_CANDIDATES)
    visitor.click("#tab-complete")
    stroke(visitor, (0.3, 0.1), (0.7, 0.4))
    visitor.expect_text("#reading-says", NO_HEAD)


def test_what_cannot_be_written_is_refused(grey_directory, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file; name a folder" in refused(
        "export", grey_directory, "--page", tmp_path / "file"
    )
    folder = tmp_path / "folder"
    two_models = refused("export", grey_directory, "--model", grey_directory, "--page", folder)
    assert two_models == "name one model, as MODEL or after --model"
    assert refused("export", "--page", folder) == two_models
    nothing = "name one thing to write: OUT, a checkpoint, or --page FOLDER"
    assert refused("export", grey_directory) == nothing
    assert refused("export", grey_directory, tmp_path / "a.pth", "--page", folder) == nothing
    assert not folder.exists()
    sentence = refused("export", grey_directory, tmp_path / "a.pth", "--precision", "int8")
    assert sentence == "--precision is for a page: add --page"
