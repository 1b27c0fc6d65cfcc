"""Parquet files of strangers: memory is taken for the pictures, whichever
column a small file fills with much.
"""

import json
import subprocess
import sys

import pytest

from scanline.model.datasets import DataError
from scanline.model.datasets.parquet_pages import UNPACKED
from scanline.model.datasets.source import open_data
from tests.support.pictures import encode, noise

ROWS = 192
LARGE = UNPACKED - 1000  # bytes of a value that a page may have
MOST = 380  # MB: half of what all rows have

# Written and read in processes of their own: the memory of this one says nothing of one file.
WRITE = """
import json, sys
import pyarrow
from pyarrow import parquet

path, column, kind, size, rows, picture, options = json.loads(sys.argv[1])
value = "x" * size if kind.endswith("string") else bytes(size)
numbers = pyarrow.array([0] * rows, pyarrow.int32())
repeated = pyarrow.DictionaryArray.from_arrays(numbers, pyarrow.array([value], getattr(pyarrow, kind)()))
if options.get("use_dictionary") is False:
    repeated = repeated.dictionary_decode()
columns = {"bytes": pyarrow.array([bytes.fromhex(picture)] * rows)}
labels = pyarrow.array(range(rows))
if column == "list":
    columns["list"] = pyarrow.array([[value]] * 2 + [[]] * (rows - 2))
elif column not in ("label", "label.x"):
    columns[column] = repeated
elif column == "label":
    labels = repeated
pictures = pyarrow.StructArray.from_arrays([*columns.values()], [*columns])
table = pyarrow.table({"image": pictures, "label": labels})
if column == "label.x":
    table = table.append_column(column, repeated)
parquet.write_table(table, path, dictionary_pagesize_limit=1 << 30, write_batch_size=1, **options)
"""
READ = """
import resource, sys
import pyarrow.parquet
from pathlib import Path
from scanline.model.datasets import DataError, folder

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(folder.load(Path(sys.argv[1])).images.shape)
except DataError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
# A value of 60 MB, of which one MB does not compress, and 19 rows
# that say to have the same beginning.
REPEATS = """
import os, sys
import pyarrow
from pyarrow import parquet

value = os.urandom(1 << 20) + bytes(60 << 20)
table = pyarrow.table({"image": pyarrow.array([value] * 20, pyarrow.binary())})
encoding = {"image": "DELTA_BYTE_ARRAY"}
options = {"compression": "zstd", "use_dictionary": False, "column_encoding": encoding, "data_page_size": 1 << 40}
parquet.write_table(table, sys.argv[1], **options)
"""


def ran(program, argument):
    command = [sys.executable, "-c", program, argument]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


NO_PICTURE = "holds no picture that can be read"
# what is large, its type and size, how it is written
CASES = {
    "pictures": ("bytes", "binary", LARGE, {}, NO_PICTURE),
    "large pictures": ("bytes", "large_binary", LARGE, {"row_group_size": 8}, NO_PICTURE),
    "pictures without a dictionary": (
        "bytes",
        "binary",
        LARGE,
        {"use_dictionary": False},
        NO_PICTURE,
    ),
    "pictures of a large page": (
        "bytes",
        "binary",
        1 << 26,
        {},
        "bytes that unpack to 67,108,868, as no pictures do",
    ),
    "labels": (
        "label",
        "string",
        LARGE,
        {},
        "has a value of 4,193,304 bytes in the column label, more than 1,000",
    ),
    "large labels": (
        "label",
        "large_string",
        LARGE,
        {"use_dictionary": False},
        "in the column label, more than 1,000",
    ),
    "labels of a large page": ("label", "string", 1 << 26, {}, "has a page of"),
    "a sibling": ("path", "string", 1 << 26, {}, f"({ROWS}, 12)"),
    "a column that is named as a part of another": (
        "label.x",
        "string",
        1 << 26,
        {},
        "a column label.x, whose name is",
    ),
    "a list": ("list", "string", 1 << 26, {}, f"({ROWS}, 12)"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_small_file_takes_little_memory(tmp_path, case):
    column, kind, size, options, expected = CASES[case]
    path = tmp_path / "a.parquet"
    picture = encode(noise(3, 4)).hex()
    ran(
        WRITE,
        json.dumps(
            [str(path), column, kind, size, ROWS, picture, {"compression": "zstd", **options}]
        ),
    )
    assert path.stat().st_size < 50_000
    said, megabytes = ran(READ, str(path)).strip().splitlines()
    assert expected in said
    assert int(megabytes) < MOST


def test_values_that_repeat_the_row_before_are_read_one_by_one(tmp_path):
    path = tmp_path / "a.parquet"
    ran(REPEATS, str(path))
    said, megabytes = ran(READ, str(path)).strip().splitlines()
    assert NO_PICTURE in said
    assert int(megabytes) < MOST


def test_a_parquet_file_is_one_by_its_content(tmp_path):
    import pyarrow
    from pyarrow import parquet

    pictures = [encode(picture) for picture in noise(20, 3, 4)]
    for name, labels in (("a.PARQUET", [1.0, 2.0] * 10), ("3f9ab0", [".", ".."] * 10)):
        table = pyarrow.table({"image": pictures, "label": labels, "none": pyarrow.nulls(20)})
        parquet.write_table(table, tmp_path / name)
        found = open_data(tmp_path / name, classes=True)
        assert found.labels.names == (("1", "2") if name.startswith("a") else ("_", "__"))
    (tmp_path / "pointer.parquet").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(DataError, match=r"pointer.parquet is a pointer of Git LFS"):
        open_data(tmp_path / "pointer.parquet")


def test_a_picture_in_many_rows_is_read_once(tmp_path):
    import pyarrow
    from pyarrow import parquet

    rows = [encode(noise(3, 4, seed=seed)) for seed in (0, 1, 2)] * 100
    parquet.write_table(pyarrow.table({"picture": rows}), tmp_path / "a.parquet")
    found = open_data(tmp_path / "a.parquet")
    assert (len(found.train) + len(found.test), found.duplicates) == (3, 297)
