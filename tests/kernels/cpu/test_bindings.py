"""A library that is not this version's own is never called: the reason
is returned, and nothing crashes.
"""

import ctypes
import shutil
import struct

import pytest
import safetensors

from scanline.kernels.cpu import bindings
from tests.support.kernels.native import NATIVE

pytestmark = NATIVE
REAL = bindings.LIBRARY


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Where the bindings look for their library."""
    monkeypatch.setattr(bindings, "LIBRARY", tmp_path / REAL.name)
    yield tmp_path / REAL.name
    bindings._load.cache_clear()


def reason():
    """Why the library that is there now is not used."""
    bindings._load.cache_clear()
    assert not bindings.available()
    return bindings.unavailable_reason() or ""


def end_of_segments(elf):
    """The first length at which the dynamic loader finds all that it maps."""
    (table,), (entry, count) = struct.unpack_from("<Q", elf, 32), struct.unpack_from("<HH", elf, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", elf, table + i * entry) for i in range(count)]
    return max(offset + size for _, _, offset, _, _, size, _, _ in segments)


def test_the_library_loads_where_it_was_compiled(library):
    assert reason() == "the cpu kernel was not compiled at install (no C++ compiler?)"
    shutil.copy(REAL, library)
    bindings._load.cache_clear()
    assert bindings.unavailable_reason() is None
    assert "portable" in bindings.instruction_sets()


@pytest.mark.parametrize(
    "name", ["_step.abi1.so", "_step.cpython-311-x86_64-linux-gnu.so", "_step.so"]
)
def test_another_version_is_refused_by_either_name(library, monkeypatch, name):
    shutil.copy(REAL, library.with_name(name))
    assert reason() == f"the cpu kernel was compiled by another version ({name}), install it again"
    shutil.copy(REAL, library)
    monkeypatch.setattr(bindings, "ABI", bindings.ABI + 1)
    assert (
        f"has ABI {bindings.expected_abi() - 1:#x} instead of {bindings.expected_abi():#x}"
        in reason()
    )


@pytest.mark.parametrize("changed", ["Shape", "_Slots", "_Tensor"])
def test_a_struct_of_another_size_is_refused(library, monkeypatch, changed):
    class Larger(getattr(bindings, changed)):
        _fields_ = (("one_more", ctypes.c_int64),)

    shutil.copy(REAL, library)
    monkeypatch.setattr(bindings, changed, Larger)
    assert "has ABI" in reason()


def test_a_library_that_is_foreign_for_another_processor_or_truncated_is_refused(
    library,
):
    shutil.copy(safetensors._safetensors_rust.__file__, library)
    assert "undefined symbol: scanline_abi" in reason()
    elf = REAL.read_bytes()
    other = elf[:18] + struct.pack("<H", 0xFFFF) + elf[20:]  # e_machine
    lengths = (0, 3, 40, 100, 5000, len(elf) // 2, end_of_segments(elf) - 1)
    for damaged in (other, *(elf[:length] for length in lengths)):
        library.unlink()  # the foreign library stays mapped: its file is not to be written over
        library.write_bytes(damaged)
        assert reason().startswith("the cpu kernel cannot be loaded ("), len(damaged)
