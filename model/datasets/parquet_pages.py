"""The pages of a Parquet file, by their headers (Thrift's compact protocol): how many bytes each
unpacks to.

A reader unpacks a page as a whole, whatever the file's footer says of it, so sizes are looked at
here before."""

from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from scanline.model.datasets.files import DataError

# A page of pictures, which are compressed themselves, has about as many bytes when it is unpacked;
# pages of labels are small. So no page needs more than this, and a small file takes little memory.
UNPACKED = 1 << 22
RATIO = 100
# read at once; each may be as large as its page, since encodings repeat the begin of the row before
ROWS = 16
# types of fields
FLAGS = (1, 2)
NUMBERS = (4, 5, 6)
DOUBLE = 7
BINARY = 8
STRUCT = 12


def check_pages(path: Path, metadata: Any, leaves: list[str]) -> tuple[list[str], int]:
    """Return which of these columns have dictionaries, and how many rows to read at once;
    DataError where a page of one unpacks to many more bytes than it has, or pyarrow would read
    another column with one. metadata: pyarrow's."""
    with_dictionary = dict.fromkeys(leaves, True)
    largest = 0
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        for group in range(metadata.num_row_groups):
            for column in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(column)
                if chunk.path_in_schema in leaves:
                    with_dictionary[chunk.path_in_schema] &= chunk.has_dictionary_page
                    start = chunk.data_page_offset
                    if chunk.dictionary_page_offset:
                        start = min(start, chunk.dictionary_page_offset)
                    end = start + chunk.total_compressed_size
                    largest = max(largest, _largest_page(path, data, start, end))
                elif chunk.path_in_schema.startswith(tuple(f"{leaf}." for leaf in leaves)):
                    raise DataError(
                        f"{path} has a column {chunk.path_in_schema}, whose name is read as one within another"
                    )
    repeated = [leaf for leaf in leaves if with_dictionary[leaf]]
    at_once = 1 if largest > UNPACKED else ROWS
    return repeated, at_once


def _largest_page(path: Path, data: mmap, at: int, end: int) -> int:
    """Return the bytes of the largest page of a column in a row group, whose pages follow each
    other."""
    largest = 0
    while at < end:
        header = _Header(data, at)
        sizes = header.fields()
        unpacked = sizes[2]
        packed = sizes[3]
        if packed < 0 or unpacked > UNPACKED + RATIO * packed:
            raise DataError(
                f"{path} has a page of {packed:,} bytes that unpack to {unpacked:,}, as no pictures do"
            )
        largest = max(largest, unpacked)
        at = header.at + packed
    return largest


class _Header:
    """A reader of one header, from a place on; any exception where it is broken."""

    def __init__(self, data: mmap, at: int) -> None:
        self.data = data
        self.at = at

    def fields(self) -> dict[int, int]:
        """Return the numbers of a struct by their fields' numbers, and pass over all else."""
        numbers: dict[int, int] = {}
        field = 0
        while kind := self._byte():
            step = kind >> 4
            kind = kind & 15
            field = field + step if step else self._number()
            if kind in NUMBERS:
                numbers[field] = self._number()
            elif kind == BINARY:
                length = self._varint()
                self.at += length
            elif kind == DOUBLE:
                self.at += 8
            elif kind == STRUCT:
                self.fields()
            elif kind not in FLAGS:
                raise ValueError(f"a page's header has a field of type {kind}")
        return numbers

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while shift < 64:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("a page's header has a number of more than 64 bits")

    def _number(self) -> int:
        """Return a signed number, whose lowest bit is its sign."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
