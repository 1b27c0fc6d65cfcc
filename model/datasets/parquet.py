"""Pictures in Parquet files, as Hugging Face publishes them: a column of pictures, each the bytes
of a file, and one of labels where the set has any. Needs pyarrow, of the extra `parquet`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

from scanline.model.base.extras import MissingExtraError
from scanline.model.base.named_files import check_file
from scanline.model.datasets.files import LARGEST_FILE, DataError, beginning
from scanline.model.datasets.parquet_pages import check_pages

MAGIC = b"PAR1"  # a file's first bytes
LABELS = ("label", "labels", "fine_label", "class")
LONGEST_LABEL = 1000  # bytes


def is_parquet(path: Path) -> bool:
    """Return whether a file is one, by its first bytes: Hugging Face's cache calls it by its
    digest."""
    return beginning(path, len(MAGIC)) == MAGIC


def rows_of(path: Path) -> int:
    """Return how many pictures a file has; DataError where it is wrong."""
    with _opened(path) as opened:
        rows = int(opened.metadata.num_rows)
        # a row of nothing takes no space, and each one is reserved memory
        if not 0 <= rows <= path.stat().st_size:
            raise DataError(f"{path} says that it has {rows:,} rows, more than bytes")
        return rows


def pictures_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each row's label, "" for none, and its picture.

    Memory is taken for some rows at a time. A value that the file has once for many rows is in
    memory once.
    """
    with _opened(path) as opened:
        features = _features(opened.schema_arrow)
        leaves = _leaves(path, opened.schema_arrow, features)
        repeated, at_once = check_pages(path, opened.metadata, leaves)
    names = features.get(leaves[1], {}).get("names") if len(leaves) > 1 else None
    row = 0
    with _opened(path, repeated) as opened:
        for batch in _batches(opened, leaves, at_once):
            if row + batch.num_rows > opened.metadata.num_rows:
                raise DataError(f"{path} has more rows than it says")
            pictures = _values(path, batch, leaves[0], LARGEST_FILE)
            labels: Iterator[Any] = repeat(None, batch.num_rows)
            if len(leaves) > 1:
                labels = _values(path, batch, leaves[1], LONGEST_LABEL)
            for data, label in zip(pictures, labels, strict=True):
                yield _class_name(label, names), data or b""
                row += 1


def _batches(opened: Any, leaves: list[str], at_once: int) -> Iterator[Any]:
    """Yield some rows after others; row groups one by one, since each has a dictionary of its
    own."""
    for group in range(opened.num_row_groups):
        yield from opened.iter_batches(at_once, row_groups=[group], columns=leaves)


def _class_name(label: Any, names: Any) -> str:
    """Return the name of a label's class; "" where it is withheld, which sets publish as -1."""
    if isinstance(label, int):
        if label < 0:
            return ""
        if names and label < len(names):
            label = names[label]
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    text = "" if label is None else str(label).replace("/", "_")
    return text.replace(".", "_") if text in (".", "..") else text


@contextmanager
def _opened(path: Path, read_dictionary: list[str] | None = None) -> Iterator[Any]:
    """Give the open file; DataError in place of any exception of pyarrow, or of what a stranger's
    metadata hold."""
    try:
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError:
        raise MissingExtraError(str(path), "parquet") from None
    try:
        check_file(path)
        with ParquetFile(path, read_dictionary=read_dictionary, pre_buffer=False) as opened:
            yield opened
    except DataError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"{path} is not a Parquet file that can be read: {reason}") from None


def _features(schema: Any) -> dict[str, Any]:
    """Return what Hugging Face's `datasets` says of each column."""
    about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    return about.get("info", {}).get("features", {})


def _leaves(path: Path, schema: Any, features: dict[str, Any]) -> list[str]:
    """Return the path of the column of pictures, without what else a struct has, and of that of
    labels, if any."""
    from pyarrow import types

    structs: list[str] = []  # with the bytes of a picture
    binary: list[str] = []
    plain: list[str] = []  # whose values can be labels
    for field in schema:
        kind = field.type
        if types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            structs.append(f"{field.name}.bytes")
        if not (types.is_nested(kind) or types.is_null(kind) or types.is_decimal(kind)):
            plain.append(field.name)
        values = kind.value_type if types.is_dictionary(kind) else kind
        if types.is_binary(values) or types.is_large_binary(values):
            binary.append(field.name)
    pictures = structs + binary
    if not pictures:
        raise DataError(
            f"{path} has no column of pictures: its columns are {', '.join(schema.names)}"
        )
    # Columns that are declared as labels come first, and of these the ones with usual names.
    declared = [name for name, about in features.items() if about.get("_type") == "ClassLabel"]
    declared.sort(key=lambda name: name not in LABELS)
    for name in (*declared, *LABELS):
        if name in plain and name != pictures[0]:
            return [pictures[0], name]
    return pictures[:1]


def _values(path: Path, batch: Any, leaf: str, most: int) -> Iterator[Any]:
    """Yield a column's values; DataError where one has more than `most` bytes, before it is made an
    object."""
    from pyarrow import compute, types

    column = batch.column(leaf.partition(".")[0])
    if types.is_struct(column.type):
        (column,) = column.flatten()
    entries = column.dictionary if types.is_dictionary(column.type) else column
    if not types.is_primitive(entries.type):
        longest = compute.max(compute.binary_length(entries)).as_py() or 0
        if longest > most:
            raise DataError(
                f"{path} has a value of {longest:,} bytes in the column {leaf}, more than {most:,}"
            )
    if entries is column:
        yield from column.to_pylist()
        return
    objects = {None: None}
    for number in column.indices.to_pylist():
        if number not in objects:
            objects[number] = entries[number].as_py()
        yield objects[number]
