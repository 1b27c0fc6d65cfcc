"""Every reader of files that a stranger may have written: whatever is there, and whatever it holds, it is read or
refused in one printable sentence, without waiting and without more memory than the file has."""

import os
import resource
import shutil
import signal
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scanline.model import hub
from scanline.model.datasets import cifar10, folder, mnist, parquet
from scanline.model.datasets.compress_input import open_compress_input
from scanline.model.datasets.files import DataError, unpacked
from scanline.model.datasets.source import mapped_array, open_data
from scanline.model.formats import code_file
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.fast_transformers import ForeignCheckpointError, read_checkpoint
from scanline.model.formats.model_dir import (
    CONFIG,
    EVALUATION,
    GENERATION,
    INDEX,
    WEIGHTS,
    ModelDirectoryError,
    load_config,
    read_info,
    weight_files,
)
from scanline.model.images.given_images import read_images
from scanline.model.named_files import MAX_MESSAGE, read_input
from scanline.model.training.run.curve import Curve
from scanline.model.training.run.record import load_run
from scanline.model.training.run.state import ResumeError, saved_configs
from scanline.server.api.api_keys import read_keys
from scanline.server.engine.local.model_copy import ModelCopy, copy_weights
from scanline.server.process.tls import TlsCertificate
from tests.model.datasets.test_source import write_parquet
from tests.support.server.infrastructure.certificates import write_certificate
from tests.support.tiny import GREY
from tests.support.waiting import PATIENCE

MEMORY = 1 << 29  # bytes that a reader, and what it imports, may take
FILE = (ValueError, OSError)  # of what Python's own `open` might refuse as well

# of each reader: a file's name, how a file of that name beside a model's others is read, and what it is refused by
READERS: dict[str, tuple[str, Callable[[Path], Any], type[Exception] | tuple[type[Exception], ...]]] = {
    "configuration": (CONFIG, lambda path: load_config(path.parent), ModelDirectoryError),
    "defaults": (GENERATION, lambda path: read_info(path.parent), ModelDirectoryError),
    "evaluation": (EVALUATION, lambda path: read_info(path.parent), ModelDirectoryError),
    "index": (INDEX, lambda path: weight_files(path.parent), ModelDirectoryError),
    "weights": (WEIGHTS, lambda path: load_model(path.parent), ModelDirectoryError),
    "server's configuration": (CONFIG, lambda path: load_config(ModelCopy(path.parent).directory), ValueError),
    "server's weights": (WEIGHTS, lambda path: served(path.parent), ModelDirectoryError),
    "card": (hub.CARD, lambda path: hub._card(path, ""), ModelDirectoryError),
    "checkpoint": ("weights.pth", read_checkpoint, ForeignCheckpointError),
    "codes": ("a.scan", lambda path: code_file.read(read_input(path)), FILE),
    "IDX": ("a-ubyte", lambda path: mnist.images(path, unpacked(path)), DataError),
    "gzipped IDX": ("a-ubyte.gz", lambda path: mnist.images(path, unpacked(path)), DataError),
    "batch": ("data_batch_1", lambda path: cifar10._unpickled(path, "", cifar10._bytes(path), True), DataError),
    "array": ("a.npy", mapped_array, DataError),
    "csv": ("a.csv", open_data, DataError),
    "parquet": ("a.parquet", lambda path: (parquet.rows_of(path), folder.load(path)), DataError),
    "pictures": ("a.png", lambda path: folder.load(path.parent), DataError),
    "picture": ("a.png", lambda path: read_images(path, GREY), FILE),
    "pictures to compress": ("a.png", lambda path: open_compress_input([path], GREY, "test", False), FILE),
    "keys": ("keys", read_keys, ValueError),
    "certificate": ("cert.pem", lambda path: TlsCertificate(path, path.with_name("key.pem")), ValueError),
    "certificate's key": ("key.pem", lambda path: TlsCertificate(path.with_name("cert.pem"), path), ValueError),
    "training state": ("training.pt", lambda path: saved_configs(path.parent), ResumeError),
    "run": ("run.json", lambda path: load_run(path.parent), ResumeError),
    "curve": ("loss.csv", lambda path: Curve(path.parent, until=9), ResumeError),
}
MAY_BE_EMPTY = ("card", "keys", "curve")
PLANTS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a link to a pipe": lambda path: (os.mkfifo(path.with_name("pipe")), path.symlink_to("pipe")),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a directory": Path.mkdir,
    "nothing": Path.touch,
    "2^40 bytes": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
}


def served(directory: Path) -> None:
    """Copy a model as a server does, and load the copy."""
    copy = ModelCopy(directory)
    copy_weights(directory, copy.directory)
    load_model(copy.directory)


def memory() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def refused(name: str, path: Path) -> bool:
    """Whether the file is refused, in a sentence of the reader's kind of error."""
    _, read, kind = READERS[name]
    try:
        read(path)
    except kind as error:
        said = str(error)
        assert said.isprintable()
        assert 0 < len(said) <= MAX_MESSAGE + 2 * len(str(path))
        return True
    return False


@pytest.fixture
def place(tmp_path: Path, grey_directory: Path) -> Path:
    """A model's directory, with a certificate."""
    place = tmp_path / "place"
    shutil.copytree(grey_directory, place)
    write_certificate(place / "cert.pem", place / "key.pem", "stranger")
    return place


@pytest.fixture
def deadline() -> Any:
    """Fail the test in place of waiting without end."""

    def late(*_: object) -> None:
        raise AssertionError("the reader waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_no_file_or_too_large_or_empty_is_refused(place: Path, plant: str, deadline: None) -> None:
    for name in READERS:
        path = place / READERS[name][0]
        before = path.with_name("before")
        if path.exists():
            path.rename(before)
        PLANTS[plant](path)
        held = memory()
        assert refused(name, path) or (plant == "nothing" and name in MAY_BE_EMPTY), name
        assert memory() - held < MEMORY, name
        path.rmdir() if path.is_dir() else path.unlink()
        path.with_name("pipe").unlink(missing_ok=True)
        if before.exists():
            before.rename(path)


def valid(name: str, path: Path) -> bytes:
    """A file that a reader reads."""
    match name:
        case "curve":
            path.write_text(
                "update,bits_per_dim,learning_rate,gradient_norm,seconds,test_bits_per_dim\n" + "5,1,1,1,1,\n" * 2
            )
        case "parquet":
            write_parquet(path, range(4))
        case "IDX":
            path.write_bytes(struct.pack(">IIII", mnist.MAGIC, 2, 7, 5) + bytes(70))
        case "keys":
            path.write_text("# keys\nsomebody sk-abcdefgh\nother sk-ijklmnop\n")
        case "codes":
            codes = code_file.Codes((b"some", b"codes"), 2)
            file = code_file.code_file(np.zeros((3, 6), np.uint8), codes, (2, 3, 1), 32 * "a", "exact")
            path.write_bytes(file.to_bytes())
    return path.read_bytes()


@pytest.mark.parametrize("examples", [20, pytest.param(2000, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("name", ["curve", "parquet", "IDX", "keys", "certificate", "certificate's key", "codes"])
def test_any_bytes_are_read_or_refused(place: Path, name: str, examples: int) -> None:
    path = place / READERS[name][0]
    whole = valid(name, path)
    assert not refused(name, path)
    edits = st.lists(st.tuples(st.integers(0, len(whole)), st.integers(0, 9), st.binary(max_size=9)), max_size=4)

    @settings(max_examples=examples)
    @given(edits, st.integers(0, len(whole)) | st.just(len(whole)))
    def check(edits: list[tuple[int, int, bytes]], cut: int) -> None:
        data = whole
        for at, length, new in edits:
            data = data[:at] + new + data[at + length :]
        path.write_bytes(data[:cut])
        refused(name, path)

    check()
