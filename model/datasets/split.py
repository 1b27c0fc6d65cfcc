"""Train and test images of a set: by its own parts, or where it has none by content, so that
the same images are split in the same way on every machine, and an added picture moves no
other. A picture is never in both."""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from scanline.model.datasets.files import DataError

TEST_SHARE = 0.1


@dataclass(frozen=True)
class Subset:
    """Some rows of an array of images [n, N], which may be mapped from a file: indexing copies only
    what it returns."""

    images: np.ndarray
    rows: np.ndarray  # [m] int64

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.images.shape[1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: np.ndarray | slice) -> np.ndarray:
        """Return a copy [k, N] of the images at these places of the subset."""
        return np.asarray(self.images[self.rows[chosen]])


Images = np.ndarray | Subset


@dataclass(frozen=True)
class Split:
    """Rows of the distinct images: each is in `train` or in `test`, both at least one, in their
    order in the set."""

    train: np.ndarray  # [m] int64
    test: np.ndarray
    duplicates: int  # rows that repeat an earlier one and are in neither
    digest: str  # of all distinct images


def split_by_content(images: np.ndarray, name: str, is_test: np.ndarray | None = None) -> Split:
    """Split images [n, N] uint8 by `is_test` [n] bool, or without it by the SHA-256 of each image's
    bytes: a tenth of all digests means test. A picture in both parts of a set is a test image.

    Where no image has such a digest, the one with the lowest is the test image; where all
    have, the one with the highest is the training image. DataError, with the set's `name`,
    where there are not two distinct images.
    """
    first_rows: dict[bytes, int] = {}
    rows = np.arange(len(images))
    if is_test is not None:  # those of the test part first
        rows = np.concatenate((np.flatnonzero(is_test), np.flatnonzero(~is_test)))
    for row in rows.tolist():
        digest = sha256(images[row].tobytes()).digest()
        first_rows.setdefault(digest, row)
    if len(first_rows) < 2:
        raise DataError(
            f"{name} holds one distinct picture; training needs at least two, one of them to test on"
        )
    ordered = sorted(first_rows)
    if is_test is None:
        tests = sum(int.from_bytes(digest[:8]) < TEST_SHARE * 2**64 for digest in ordered)
        tests = min(max(tests, 1), len(ordered) - 1)
        test = [first_rows[digest] for digest in ordered[:tests]]
        train = [first_rows[digest] for digest in ordered[tests:]]
    else:
        test = [row for row in first_rows.values() if is_test[row]]
        train = [row for row in first_rows.values() if not is_test[row]]
        if not train:
            raise DataError(f"every training picture of {name} is a test picture too")
    return Split(
        np.array(sorted(train), np.int64),
        np.array(sorted(test), np.int64),
        len(images) - len(first_rows),
        sha256(b"".join(ordered)).hexdigest(),
    )
