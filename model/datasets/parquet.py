"""Pictures in Parquet files, as Hugging Face publishes them: a column of pictures, each the bytes of a file, and one of
labels where the set has any. Needs pyarrow, of the extra `parquet`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scanline.model.datasets.files import PARTS, DataError
from scanline.model.extras import MissingExtraError
from scanline.model.named_files import check_file

SUFFIX = ".parquet"
ROWS = 256  # read at once


def rows_of(path: Path) -> int:
    """Return how many pictures a file has; DataError where it is wrong."""
    with _opened(path) as opened:
        rows = int(opened.metadata.num_rows)
        if not 0 <= rows <= path.stat().st_size:  # a row of nothing takes no space, and each one is reserved memory
            raise DataError(f"{path} says that it has {rows:,} rows, more than bytes")
        return rows


def pictures_of(path: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the pictures of a file, and for each the path that it would have in a folder: the part of the set that the
    file's name begins with (train-00000-of-00001), or its folder's is (train/0000), its label's name, and its row."""
    with _opened(path) as opened:
        features = json.loads((opened.schema_arrow.metadata or {}).get(b"huggingface", b"{}")).get("info", {})
        picture, label = _columns(path, opened.schema_arrow)
        names = features.get("features", {}).get(label, {}).get("names") if label else None
        above, row = [part for part in (path.stem.partition("-")[0], path.parent.name) if part.lower() in PARTS][:1], 0
        for batch in opened.iter_batches(ROWS, columns=[picture, *filter(None, (label,))]):
            if row + batch.num_rows > opened.metadata.num_rows:
                raise DataError(f"{path} has more rows than it says")
            for values in batch.to_pylist():
                data, number = values[picture], values[label] if label else None
                data = data.get("bytes") if isinstance(data, dict) else data
                name = names[number] if names and isinstance(number, int) and 0 <= number < len(names) else number
                below = () if name is None else (str(name).replace("/", "_"),)
                yield Path(*above, *below, f"{path.stem}:{row}"), data or b""
                row += 1


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Give the open file; DataError in place of any exception of pyarrow, or of what a stranger's metadata hold."""
    try:
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError:
        raise MissingExtraError(str(path), "parquet") from None
    try:
        check_file(path)
        yield ParquetFile(path)
    except DataError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"{path} is not a Parquet file that can be read: {reason}") from None


def _columns(path: Path, schema: Any) -> tuple[str, str | None]:
    """Return the names of the column of pictures and of that of labels, which may be missing."""
    from pyarrow import types

    structs = [f.name for f in schema if types.is_struct(f.type) and f.type.get_field_index("bytes") >= 0]
    binary = [f.name for f in schema if types.is_binary(f.type) or types.is_large_binary(f.type)]
    if not structs and not binary:
        raise DataError(f"{path} has no column of pictures: its columns are {', '.join(schema.names)}")
    label = next((name for name in ("label", "labels", "fine_label", "class") if name in schema.names), None)
    return (structs or binary)[0], label
