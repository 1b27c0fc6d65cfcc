"""Models of the Hugging Face Hub, by its client library as it runs, from a
server of this machine; model cards.
"""

import importlib.metadata
import json
import os
import re
import shutil
import sys
from functools import partial

import pytest

from scanline.model import zoo
from scanline.model.base.extras import DISTRIBUTION, install_command
from scanline.model.formats import checkpoint, hub
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.model_card import TASK, metadata, with_metadata
from scanline.model.formats.model_dir import model_name, read_evaluation
from tests.support import small_models
from tests.support.local_hub import TOKEN, local_hub, use
from tests.support.saved_models import assert_same_weights, files

library = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
constants = pytest.importorskip("huggingface_hub.constants")

OWN = {"README.md", "config.json", "evaluation.json", "generation_config.json", "model.safetensors"}


@pytest.fixture(scope="module")
def server():
    with local_hub() as server:
        yield server


@pytest.fixture
def a_hub(server, tmp_path, monkeypatch):
    """The Hub, with an empty cache and no repository."""
    server.clear()
    use(server, tmp_path / "cache", monkeypatch)
    return server


@pytest.fixture
def directory(tmp_path):
    directory = tmp_path / "digits"
    save_model(small_models.model(small_models.config(**small_models.CLASSES)), directory)
    (directory / "evaluation.json").write_text(
        json.dumps({"dataset": "mnist", "bits_per_dim": 1.25})
    )
    (directory / "generation_config.json").write_text('{"class": "horse"}')
    (directory / "README.md").write_text(
        "# digits\n\n![Samples](samples.png)\n![Elsewhere](https://host/x.png)\n"
    )
    (directory / "samples.png").write_bytes(b"\x89PNG\r\n\x1a\n a picture")
    (directory / "pytorch_model.bin").write_bytes(b"a pickle")
    return directory


def test_a_repository_is_a_cached_directory(a_hub, directory, monkeypatch):
    first = a_hub.add("org/digits", directory)
    save_model(small_models.model(small_models.config(), seed=1), directory)
    second = a_hub.add("org/digits", directory)
    newest = zoo.find("org/digits")
    older = zoo.find(f"org/digits@{first}")
    assert (newest.name, older.name, model_name(newest)) == (second, first, "digits")
    assert a_hub.downloaded() == set(files(newest)) == set(files(older)) == OWN
    assert_same_weights(load_model(directory).state_dict(), load_model(newest).state_dict())
    assert load_model(older).config.classes == small_models.CLASSES["classes"]
    assert hub.pinned("org/digits@main", newest) == f"org/digits@{second}"
    # All of it is there now: nothing is downloaded again, and the Hub may be out of reach.
    a_hub.requests.clear()
    assert zoo.find("org/digits@main") == newest
    assert a_hub.downloaded() == set()
    cached = "org/other is neither a directory nor complete in Hugging Face's cache"
    for name, value, reason in (
        (
            "ENDPOINT",
            "http://127.0.0.1:9",
            r"http://127\.0\.0\.1:9 cannot be reached \(.*refused\)",
        ),
        ("HF_HUB_OFFLINE", True, "HF_HUB_OFFLINE is set"),
    ):
        monkeypatch.setattr(constants, name, value)
        assert zoo.find("org/digits") == newest
        with pytest.raises(ValueError, match=f"^{cached}, and {reason}$"):
            zoo.find("org/other")


def test_a_download_that_ends_in_its_middle_is_one_sentence_and_is_completed_later(
    a_hub, directory, monkeypatch
):
    # between two attempts
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    a_hub.add("org/digits", directory)
    a_hub.interrupted.add("model.safetensors")
    with pytest.raises(
        ValueError, match=rf"^org/digits is .+, and {a_hub.url} cannot be reached \(.*closed.*\)$"
    ):
        zoo.find("org/digits")
    a_hub.interrupted.clear()
    assert_same_weights(
        load_model(directory).state_dict(), load_model(zoo.find("org/digits")).state_dict()
    )


NOT_OURS = "is not a model of Scanline:"
TOO_LARGE = "are the limit; what you trust, download by `hf download`, and give its directory"
FAULTS = {
    "org/digits@nope": "{url}/org/digits has no revision 'nope'",
    "org/none": "there is no model 'org/none': neither a directory nor a repository of {url} (if private, log in by"
    " `hf auth login` or set HF_TOKEN)",
    "org/gated": "org/gated is gated: ask for access at {url}/org/gated, and log in by `hf auth login` or set HF_TOKEN",
    "org/diffusers": f"org/diffusers {NOT_OURS} it has no config.json",
    "org/bert": f"org/bert {NOT_OURS} config.json: missing key 'format', which the configuration of each model of"
    " Scanline has",
    "org/pickle": f"org/pickle {NOT_OURS} 'pytorch_model.bin' is not a safetensors file",
    "org/bare": f"org/bare {NOT_OURS} it has no model.safetensors",
    "org/large": f"org/large is too large: model.safetensors of 2,001 MB, where 2,000 MB {TOO_LARGE}",
    "org/verbose": f"org/verbose is too large: config.json and others of 10 MB, where 10 MB {TOO_LARGE}",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_sentence_before_any_weights_are_downloaded(a_hub, directory, name):
    own = {path.name: path.read_bytes() for path in directory.iterdir()}
    index = {"weight_map": {"tensor": "pytorch_model.bin"}}
    for repository in ("org/digits", "org/large", "org/verbose"):
        a_hub.add(repository, own)
    a_hub.add("org/gated", own, gated=True)
    a_hub.add("org/diffusers", {"model_index.json": b"{}", "unet/config.json": b"{}"})
    a_hub.add("org/bert", {**own, "config.json": b'{"architectures": ["BertModel"], "layers": 12}'})
    a_hub.add("org/pickle", {**own, "model.safetensors.index.json": json.dumps(index).encode()})
    a_hub.add("org/bare", {file: data for file, data in own.items() if file != "model.safetensors"})
    if name == "org/large":
        a_hub.sizes["model.safetensors"] = 2_001_000_000
    if name == "org/verbose":
        a_hub.sizes["README.md"] = 10_000_000
    with pytest.raises(ValueError, match=r"^\S") as raised:
        zoo.find(name)
    assert str(raised.value) == FAULTS[name].format(url=a_hub.url)
    assert not {file for file in a_hub.downloaded() if file.endswith(("safetensors", "bin"))}


def test_a_token_that_has_expired_is_named_with_the_words_of_the_hub(a_hub, directory, monkeypatch):
    """The Hub answers with 401 for public models too, and for one that is not there."""
    a_hub.add("org/digits", directory)
    monkeypatch.setenv("HF_TOKEN", "hf_expired")
    said = f"{a_hub.url} refuses the token that is set, Invalid username or password; log in by `hf auth login` or set"
    for ask in (zoo.find, partial(hub.push, directory)):
        for name in ("org/digits", "org/none"):
            with pytest.raises(ValueError, match=re.escape(said)):
                ask(name)


def test_without_the_library_the_sentence_says_what_to_install(
    monkeypatch,
):
    if "hub" not in (importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or ()):
        pytest.skip("the package was installed before it had the extra hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        ValueError, match=r"^org/digits is no directory; a model of the Hugging"
    ) as raised:
        zoo.find("org/digits")
    assert str(raised.value).endswith(f" Face Hub needs the extra hub: {install_command('hub')}")


def test_a_pushed_model_is_what_is_fetched(a_hub, directory, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    url = hub.push(directory, "org/digits", private=True, message="The first")
    repository = a_hub.repositories["org/digits"]
    assert url == f"{a_hub.url}/org/digits/commit/{repository.branches['main']}"
    assert (repository.private, repository.messages) == (True, ["initial commit", "The first"])
    there = repository.commits[repository.branches["main"]]
    assert set(there) == OWN | {".gitattributes", "samples.png"}
    card = library.ModelCard(there["README.md"].decode())
    assert (card.data.library_name, card.data.eval_results[0].metric_value) == ("scanline", 1.25)
    assert card.text.startswith("\n# digits\n")
    assert (zoo.find("org/digits") / "model.safetensors").read_bytes() == there["model.safetensors"]


def test_a_push_removes_what_was_there(a_hub, directory, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    shards = shutil.copytree(directory, directory.parent / "shards")
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "SHARD_BYTES", 4000)
        save_model(load_model(directory), shards)
    hub.push(shards, "org/digits")
    (directory / "evaluation.json").unlink()
    hub.push(directory, "org/digits@single")
    repository = a_hub.repositories["org/digits"]
    sharded, single = (
        set(repository.commits[repository.branches[name]]) for name in ("main", "single")
    )
    assert "model.safetensors.index.json" in sharded
    assert single == (OWN | {".gitattributes", "samples.png"}) - {"evaluation.json"}
    expected = load_model(directory).state_dict()
    for name in ("org/digits", "org/digits@single"):
        assert_same_weights(expected, load_model(zoo.find(name)).state_dict())


def test_a_push_that_the_hub_refuses_or_of_a_broken_model_is_one_sentence(a_hub, directory):
    with pytest.raises(
        ValueError,
        match=rf"^org/digits: {a_hub.url} wants a token; log in by `hf auth login` or set",
    ):
        hub.push(directory, "org/digits")
    with pytest.raises(
        ValueError,
        match=r"^'digits' is no repository of the Hugging Face Hub; give ORG/NAME or ORG/",
    ):
        hub.push(directory, "digits")
    os.truncate(directory / "model.safetensors", 100)
    a_hub.requests.clear()
    with pytest.raises(ValueError, match="is not a readable safetensors file"):
        hub.push(directory, "org/digits")
    assert a_hub.requests == []


def _card_of_a_key(directory, key):
    (directory / "samples.png").unlink()
    (directory / "samples.png").symlink_to(key)


def _card_itself(directory, key):
    (directory / "README.md").unlink()
    (directory / "README.md").symlink_to(key)


def _weights_over_two_links(directory, key):
    shutil.move(directory / "model.safetensors", key.parent)
    (directory / "link").symlink_to(key.parent)
    (directory / "model.safetensors").symlink_to("link/model.safetensors")


def _snapshot_with_planted_blobs(directory, key):
    snapshots = directory / "models--org--digits/snapshots"
    shutil.copytree(directory, snapshots / "1")
    (snapshots.parent / "blobs").symlink_to(key.parent)
    (snapshots / "1/evaluation.json").unlink()
    (snapshots / "1/evaluation.json").symlink_to("../../blobs/key")


def _key_within_the_directory(directory, key):
    shutil.copy(key, directory / "samples.png")


PLANTED = [
    _card_of_a_key,
    _card_itself,
    _weights_over_two_links,
    _snapshot_with_planted_blobs,
    _key_within_the_directory,
]


@pytest.mark.parametrize("plant", PLANTED)
def test_no_file_of_the_user_is_sent(
    a_hub,
    directory,
    tmp_path,
    monkeypatch,
    plant,
):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    key = tmp_path / "home/key"
    key.parent.mkdir()
    key.write_text("{}")
    plant(directory, key)
    a_hub.requests.clear()
    with pytest.raises(
        ValueError, match=r"is not sent; put a copy there$|is shown on the card and is no picture$"
    ):
        hub.push(next(directory.glob("models--*/snapshots/1"), directory), "org/digits")
    assert a_hub.requests == []


def test_a_snapshot_of_the_cache_and_links_within_the_directory_are_sent(
    a_hub, directory, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    (directory / "samples.png").rename(directory / "newest.png")
    (directory / "samples.png").symlink_to("newest.png")
    hub.push(directory, "org/digits")
    hub.push(zoo.find("org/digits"), "org/again")
    repository = a_hub.repositories["org/again"]
    assert set(repository.commits[repository.branches["main"]]) >= OWN


def test_pictures_of_a_card_are_sent_however_it_shows_them_and_others_are_named(
    a_hub, directory, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    shown = ["sub/a.png", "with space.png", "b c.png", "html.png", "title.png"]
    (directory / "sub").mkdir()
    for name in shown:
        (directory / name).write_bytes((directory / "samples.png").read_bytes())
    card = """# digits
    ![a](./sub/a.png) ![](<with space.png>) ![](b%20c.png) <img width=3 SRC='html.png'> ![](title.png "Title")
    ![](https://a.example/x.png) <img src="data:image/png;base64,AAAA"> ![](//a.example/y.png)
    ![](HTML.png) ![](../key.png) ![](/etc/passwd) <img src="gone.png">
    """
    (directory / "README.md").write_text(card)
    (directory.parent / "key.png").write_bytes((directory / "samples.png").read_bytes())
    assert hub.missing_pictures(directory) == ["HTML.png", "../key.png", "/etc/passwd", "gone.png"]
    hub.push(directory, "org/digits")
    repository = a_hub.repositories["org/digits"]
    assert set(repository.commits[repository.branches["main"]]) == OWN | {".gitattributes", *shown}
    (directory / "html.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"html.png is shown on the card and is no picture$"):
        hub.push(directory, "org/digits")


@pytest.mark.parametrize(
    ("name", "dataset"), [("mnist-small", "ylecun/mnist"), ("cifar10-small", "uoft-cs/cifar10")]
)
def test_a_shipped_card_has_the_metadata_of_its_model(name, dataset):
    directory = zoo.find(name)
    card = library.ModelCard((directory / "README.md").read_text())
    evaluation = read_evaluation(directory)
    assert (card.data.library_name, card.data.pipeline_tag, card.data.license) == (
        "scanline",
        TASK,
        "mit",
    )
    assert card.data.datasets == [dataset]
    (result,) = card.data.eval_results
    assert (card.data.model_name, result.task_type, result.dataset_type) == (name, TASK, dataset)
    assert (result.metric_type, result.metric_value) == (
        "bits_per_dim",
        round(evaluation["bits_per_dim"], 3),
    )
    assert card.text.startswith(f"\n# {name}\n")


def test_names_are_quoted_and_what_was_not_measured_is_left_out():
    name = 'a: "b" #1\n\u00e9\U0001f600'
    folder = "- letters: [x]"
    card = library.ModelCard(metadata(name, {"dataset": folder, "bits_per_dim": 1.5}))
    (result,) = card.data.eval_results
    assert (card.data.model_name, result.dataset_type, result.dataset_name) == (
        name,
        "imagefolder",
        folder,
    )
    assert card.data.datasets is None
    assert library.ModelCard(metadata(name, {})).data.to_dict() == {
        "library_name": "scanline",
        "pipeline_tag": TASK,
    }
    of_own = metadata("mine", {"dataset": "mnist", "bits_per_dim": 1.5}, published=False)
    assert library.ModelCard(of_own).data.datasets is None


def test_a_card_keeps_the_metadata_that_it_has():
    card = with_metadata("# mine\n", "mine", {})
    assert card == metadata("mine", {}) + "\n# mine\n"
    assert with_metadata(card, "other", {"dataset": "mnist", "bits_per_dim": 1.5}) == card
