"""Models of the Hugging Face Hub, by its client library as it runs, from a server of this machine."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from scanline.model import hub, zoo
from scanline.model.extras import DISTRIBUTION, install_command
from scanline.model.formats import checkpoint
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.model_dir import model_name
from tests.support import small_models
from tests.support.local_hub import TOKEN, LocalHub, local_hub, use
from tests.support.saved_models import assert_same_weights, files

library = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
constants = pytest.importorskip("huggingface_hub.constants")

OWN = {"README.md", "config.json", "evaluation.json", "generation_config.json", "model.safetensors"}


@pytest.fixture(scope="module")
def server() -> Iterator[LocalHub]:
    with local_hub() as server:
        yield server


@pytest.fixture
def a_hub(server: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalHub:
    """The Hub, with an empty cache and no repository."""
    server.clear()
    use(server, tmp_path / "cache", monkeypatch)
    return server


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A model, and what may lie beside it."""
    directory = tmp_path / "digits"
    save_model(small_models.model(small_models.config(**small_models.CLASSES)), directory)
    evaluation = {"dataset": "mnist", "bits_per_dim": 1.25}
    (directory / "evaluation.json").write_text(json.dumps(evaluation))
    (directory / "generation_config.json").write_text('{"class": "horse"}')
    (directory / "README.md").write_text("# digits\n\n![Samples](samples.png)\n![Elsewhere](https://host/x.png)\n")
    (directory / "samples.png").write_bytes(b"a picture")
    (directory / "pytorch_model.bin").write_bytes(b"a pickle")
    return directory


def test_a_repository_is_the_directory_of_its_revision_in_the_cache(
    a_hub: LocalHub, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = a_hub.add("org/digits", directory)
    save_model(small_models.model(small_models.config(), seed=1), directory)
    second = a_hub.add("org/digits", directory)
    newest, older = zoo.find("org/digits"), zoo.find(f"org/digits@{first}")
    assert (newest.name, older.name, model_name(newest)) == (second, first, "digits")
    assert a_hub.downloaded() == set(files(newest)) == set(files(older)) == OWN
    assert_same_weights(load_model(directory).state_dict(), load_model(newest).state_dict())
    assert load_model(older).config.classes == small_models.CLASSES["classes"]
    assert hub.pinned("org/digits@main", newest) == f"org/digits@{second}"

    # All of it is there now: nothing is downloaded again, and the Hub may be out of reach.
    a_hub.requests.clear()
    assert zoo.find("org/digits@main") == newest
    assert a_hub.downloaded() == set()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert zoo.find("org/digits") == newest
    with pytest.raises(ValueError, match=r"^org/other is neither a .+ in Hugging Face's cache, and HF_HUB_OFFLINE is"):
        zoo.find("org/other")


def test_an_interrupted_download_goes_on_where_it_ended_or_is_one_sentence(
    a_hub: LocalHub, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)  # between two attempts
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    a_hub.add("org/digits", directory)
    a_hub.interruptions["model.safetensors"] = 100
    with pytest.raises(ValueError, match=rf"^org/digits: {a_hub.url} cannot be reached \(.*closed.*\)$"):
        zoo.find("org/digits")
    a_hub.ranges.clear()
    a_hub.interruptions["model.safetensors"] = 1
    size = (directory / "model.safetensors").stat().st_size
    assert (zoo.find("org/digits") / "model.safetensors").stat().st_size == size
    assert a_hub.ranges == [f"bytes={size // 2000 * 1000}-"]


FAULTS = {
    "revision": ("org/digits@nope", "{url}/org/digits has no revision 'nope'"),
    "unknown": (
        "org/none",
        "there is no model 'org/none': neither a directory nor a repository of {url} (if private, log in by"
        " `hf auth login` or set HF_TOKEN)",
    ),
    "gated": (
        "org/gated",
        "org/gated is gated: ask for access at {url}/org/gated, and log in by `hf auth login` or set HF_TOKEN",
    ),
    "no config": ("org/diffusers", "org/diffusers is not a model of Scanline: it has no config.json"),
    "transformers": (
        "org/bert",
        "org/bert is not a model of Scanline: config.json: missing key 'format', which the configuration of each"
        " model of Scanline has",
    ),
    "pickle": (
        "org/pickle",
        "org/pickle is not a model of Scanline: 'pytorch_model.bin' is not a safetensors file",
    ),
    "weights": ("org/bare", "org/bare is not a model of Scanline: it has no model.safetensors"),
    "large": (
        "org/large",
        "org/large is too large: model.safetensors of 2,001 MB, where 2,000 MB are the limit; what you trust,"
        " download by `hf download`, and give its directory",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_sentence_before_any_weights_are_downloaded(
    a_hub: LocalHub, directory: Path, fault: str
) -> None:
    name, sentence = FAULTS[fault]
    commit = a_hub.add("org/digits", directory)
    own = a_hub.repositories["org/digits"].commits[commit]
    a_hub.add_files("org/gated", own).gated = True
    a_hub.add_files("org/diffusers", {"model_index.json": b"{}", "unet/config.json": b"{}"})
    a_hub.add_files("org/bert", {**own, "config.json": b'{"architectures": ["BertModel"], "layers": 12}'})
    index = {"weight_map": {"tensor": "pytorch_model.bin"}}
    a_hub.add_files("org/pickle", {**own, "model.safetensors.index.json": json.dumps(index).encode()})
    a_hub.add_files("org/bare", {key: data for key, data in own.items() if key != "model.safetensors"})
    a_hub.add_files("org/large", own)
    if fault == "large":
        a_hub.sizes["model.safetensors"] = 2_001_000_000
    with pytest.raises(ValueError, match=r"^\S") as raised:
        zoo.find(name)
    assert str(raised.value) == sentence.format(url=a_hub.url)
    assert not {file for file in a_hub.downloaded() if file.endswith(("safetensors", "bin"))}


def test_a_hub_that_cannot_be_reached_is_one_sentence(a_hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    cached = "org/digits is neither a directory nor complete in Hugging Face's cache"
    with pytest.raises(ValueError, match=rf"^{cached}, and http://127\.0\.0\.1:9 cannot be reached \(.*refused\)$"):
        zoo.find("org/digits")


def test_without_the_library_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    if "hub" not in (metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or ()):
        pytest.skip("the package was installed before it had the extra hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        ValueError, match=r"^org/digits is no directory; a model of the Hugging Face Hub needs"
    ) as raised:
        zoo.find("org/digits")
    assert str(raised.value).endswith(f"needs the extra hub: {install_command('hub')}")


def test_a_pushed_model_is_what_is_fetched(a_hub: LocalHub, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert_same_weights(load_model(directory).state_dict(), load_model(zoo.find("org/digits")).state_dict())


def test_a_push_to_a_branch_removes_what_the_model_before_had(
    a_hub: LocalHub, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    shards = shutil.copytree(directory, directory.parent / "shards")
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "SHARD_BYTES", 4000)
        save_model(load_model(directory), shards)
    hub.push(shards, "org/digits")
    (directory / "evaluation.json").unlink()
    hub.push(directory, "org/digits@single")
    repository = a_hub.repositories["org/digits"]
    sharded, single = (set(repository.commits[repository.branches[name]]) for name in ("main", "single"))
    assert "model.safetensors.index.json" in sharded
    assert single == (OWN | {".gitattributes", "samples.png"}) - {"evaluation.json"}
    expected = load_model(directory).state_dict()
    for name in ("org/digits", "org/digits@single"):
        assert_same_weights(expected, load_model(zoo.find(name)).state_dict())


def test_a_push_that_the_hub_refuses_or_of_a_broken_model_is_one_sentence(a_hub: LocalHub, directory: Path) -> None:
    with pytest.raises(ValueError, match=rf"^org/digits: {a_hub.url} wants a token; log in by `hf auth login` or set"):
        hub.push(directory, "org/digits")
    with pytest.raises(ValueError, match=r"^'digits' is no repository of the Hugging Face Hub; give ORG/NAME or ORG/"):
        hub.push(directory, "digits")
    os.truncate(directory / "model.safetensors", 100)
    a_hub.requests.clear()
    with pytest.raises(ValueError, match="is not a readable safetensors file"):
        hub.push(directory, "org/digits")
    assert a_hub.requests == []
