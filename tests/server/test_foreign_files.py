"""Every reader of files of strangers: whatever they hold, they are read or
refused in one printable sentence.
"""

import os
import resource
import shutil
import signal
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scanline.model.base.named_files import MAX_MESSAGE, FileError, read_input
from scanline.model.datasets import cifar10, compress_input, files, folder, mnist, parquet, source
from scanline.model.formats import checkpoint, code_file, fast_transformers, hub, model_dir
from scanline.model.images import given_images
from scanline.model.training.run import curve, record, state
from scanline.server.api.base.api_keys import read_keys
from scanline.server.engine.worker.model_copy import ModelCopy, copy_weights
from scanline.server.process.tls import TlsCertificate
from tests.model.datasets.test_source import write_parquet
from tests.support.server.infrastructure.certificates import write_certificate
from tests.support.small_models import GREY
from tests.support.waiting import PATIENCE

MEMORY = 1 << 29  # bytes that a reader, and what it imports, may take
# what a file that the user names is refused by, as by Python's own `open`
NAMED = (ValueError, OSError)


def served(directory):
    """Copy a model as a server does, and load the copy."""
    copy = ModelCopy(directory)
    copy_weights(directory, copy.directory)
    checkpoint.load_model(copy.directory)


# of each reader: a file's name, how that is read, beside a
# model's others, and what it is refused by
READERS = {
    "configuration": ("config.json", lambda path: model_dir.load_config(path.parent), FileError),
    "defaults": (
        "generation_config.json",
        lambda path: model_dir.read_info(path.parent),
        FileError,
    ),
    "evaluation": ("evaluation.json", lambda path: model_dir.read_info(path.parent), FileError),
    "index": (model_dir.INDEX, lambda path: model_dir.weight_files(path.parent), FileError),
    "weights": (model_dir.WEIGHTS, lambda path: checkpoint.load_model(path.parent), FileError),
    "server's configuration": ("config.json", lambda path: served(path.parent), ValueError),
    "server's weights": (model_dir.WEIGHTS, lambda path: served(path.parent), FileError),
    "card": ("README.md", lambda path: hub._card(path, ""), FileError),
    "checkpoint": ("weights.pth", fast_transformers.read_checkpoint, FileError),
    "codes": ("a.scan", lambda path: code_file.read(read_input(path)), NAMED),
    "IDX": ("a-ubyte", lambda path: mnist.images(path, files.unpacked(path)), FileError),
    "gzipped IDX": ("a-ubyte.gz", lambda path: mnist.images(path, files.unpacked(path)), FileError),
    "batch": (
        "data_batch_1",
        lambda path: cifar10._unpickled(path, "", files.unpacked(path), True),
        FileError,
    ),
    "array": ("a.npy", source.mapped_array, FileError),
    "csv": ("a.csv", source.open_data, FileError),
    "parquet": ("a.parquet", lambda path: (parquet.rows_of(path), folder.load(path)), FileError),
    "pictures": ("a.png", lambda path: folder.load(path.parent), FileError),
    "picture": ("a.png", lambda path: given_images.read_images(path, GREY), NAMED),
    "compressed": (
        "a.png",
        lambda path: compress_input.open_compress_input([path], GREY, "test", False),
        NAMED,
    ),
    "keys": ("keys", read_keys, ValueError),
    "certificate": (
        "cert.pem",
        lambda path: TlsCertificate(path, path.with_name("key.pem")),
        ValueError,
    ),
    "private key": (
        "key.pem",
        lambda path: TlsCertificate(path.with_name("cert.pem"), path),
        ValueError,
    ),
    "training state": (state.FILE, lambda path: state.saved_configs(path.parent), FileError),
    "run": (model_dir.RUN, lambda path: record.load_run(path.parent), FileError),
    "curve": ("loss.csv", lambda path: curve.Curve(path.parent, until=9), FileError),
}
MAY_BE_EMPTY = ("card", "keys", "curve")
PLANTS = {
    "a pipe": os.mkfifo,
    "a link to a pipe": lambda path: (os.mkfifo(path.with_name("pipe")), path.symlink_to("pipe")),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a directory": Path.mkdir,
    "nothing": Path.touch,
    "2^40 bytes": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
}
VALID = {  # writes a file that is read
    "curve": lambda path: path.write_text(",".join(curve.Row.__annotations__) + 2 * "\n5,1,1,1,1,"),
    "parquet": lambda path: write_parquet(path, range(4)),
    "IDX": lambda path: path.write_bytes(struct.pack(">IIII", mnist.MAGIC, 2, 7, 5) + bytes(70)),
    "keys": lambda path: path.write_text("# keys\nsomebody sk-abcdefgh\nother sk-ijklmnop\n"),
    "certificate": Path.touch,  # `place` has one
    "private key": Path.touch,
}


@pytest.fixture
def place(tmp_path, grey_directory):
    place = tmp_path / "place"
    shutil.copytree(grey_directory, place)
    write_certificate(place / "cert.pem", place / "key.pem", "stranger")
    return place


def refused(name, path):
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


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_or_too_large_or_empty_is_refused(place, name, plant):
    path = place / READERS[name][0]
    path.unlink(missing_ok=True)
    PLANTS[plant](path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # which ends this process: a reader that waits for a pipe waits without end
    signal.alarm(PATIENCE)
    assert refused(name, path) or (plant == "nothing" and name in MAY_BE_EMPTY)
    signal.alarm(0)
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < MEMORY


@pytest.mark.parametrize("examples", [20, pytest.param(2000, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("name", VALID)
def test_any_bytes_are_read_or_refused(place, name, examples):
    path = place / READERS[name][0]
    VALID[name](path)
    whole = path.read_bytes()
    assert not refused(name, path)

    @settings(max_examples=examples)
    @given(
        st.lists(
            st.tuples(st.integers(0, len(whole)), st.integers(0, 9), st.binary(max_size=9)),
            max_size=4,
        ),
        st.integers(0, len(whole)) | st.just(len(whole)),
    )
    def check(edits, end):
        data = whole[:end]
        for at, length, new in edits:
            data = data[:at] + new + data[at + length :]
        path.write_bytes(data)
        refused(name, path)

    check()
