"""A model directory of a stranger: whatever its files hold, it is read, or
refused in one printable sentence.
"""

import json
import shutil
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scanline.model.base.named_files import MAX_MESSAGE
from scanline.model.formats import model_dir
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_dir import (
    CONFIG,
    EVALUATION,
    GENERATION,
    INDEX,
    WEIGHTS,
    ModelDirectoryError,
)
from tests.support import shapes

NAMES = (CONFIG, EVALUATION, GENERATION, INDEX)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=9),
    st.sampled_from(
        (
            10**400,
            -(10**400),
            1e308,
            2**63,
            "\x1b]0;a\x07",
            "a\nb",
            "\ud800",
            "x" * 100_000,
            [],
            {},
            [[]],
        )
    ),
    st.recursive(st.none(), st.lists, max_leaves=9),
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A model with each of the files."""
    directory = shapes.evaluate(
        shapes.save(tmp_path_factory.mktemp("models") / "strange", shapes.GUIDED)
    )
    (directory / GENERATION).write_text(
        '{"class": "star", "guidance": 1.5, "temperature": 0.9, "particles": 1, "best_of": 1}'
    )
    (directory / INDEX).write_text(
        json.dumps({"metadata": {}, "weight_map": {"head.bias": WEIGHTS}})
    )
    return directory


def places(value):
    """Each object or list in a JSON value, with each of its keys, or indices."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def assert_read_or_refused(directory):
    __tracebackhide__ = True
    with printable_refusal():
        info = model_dir.read_info(directory)
        files = model_dir.weight_files(directory)
        assert_can_be_sent(info, files)


@contextmanager
def printable_refusal():
    """Assert that what is raised within, if anything, is a short printable ModelDirectoryError."""
    try:
        yield
    except ModelDirectoryError as error:
        said = str(error)
    else:
        said = ""
    assert said.isprintable()
    assert len(said) <= MAX_MESSAGE


def assert_can_be_sent(info, files):
    said = [
        info.config.to_dict(),
        info.defaults.to_dict(),
        info.bits_per_dim,
        info.temperature_by_bits,
        files,
    ]
    said += [info.typicality.to_dict(), info.typicality.range] if info.typicality else []
    said += [info.cleaning.to_dict()] if info.cleaning else []
    json.dumps(said, allow_nan=False).encode()


@given(st.sampled_from(NAMES), st.integers(0), ODD, st.booleans())
@settings(max_examples=300)
def test_any_value_of_any_type_at_any_place(directory, name, at, value, is_left_out):
    path = directory / name
    before = path.read_bytes()
    document = [json.loads(before)]
    found = list(places(document))
    holder, key = found[at % len(found)]
    if is_left_out and isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = value
    try:
        path.write_text(json.dumps(document[0]))
        assert_read_or_refused(directory)
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize("name", NAMES)
def test_what_nests_too_deep_is_refused(directory, tmp_path, name):
    copy = tmp_path / "strange"
    shutil.copytree(directory, copy)
    for depth in (300, 900, 2000):
        document = json.loads((directory / name).read_text())
        with suppress(RecursionError):
            for key in list(document):
                text = json.dumps(document | {key: "deep"}).replace(
                    '"deep"', depth * "[" + depth * "]"
                )
                (copy / name).write_text(text)
                assert_read_or_refused(copy)


@given(st.data())
@settings(max_examples=100)
def test_weights_of_any_bytes(directory, data):
    path = directory / WEIGHTS
    before = path.read_bytes()
    header = json.loads(before[8 : 8 + int.from_bytes(before[:8], "little")])
    holder, key = data.draw(st.sampled_from(list(places([header]))))
    holder[key] = data.draw(ODD)
    text = json.dumps(header).encode()
    cut = data.draw(st.integers(0, len(before)))
    try:
        path.write_bytes(len(text).to_bytes(8, "little") + text + before[cut:])
        with printable_refusal():
            load_model(directory)
    finally:
        path.write_bytes(before)
