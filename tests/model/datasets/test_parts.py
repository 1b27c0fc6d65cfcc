"""The split of a folder by the names of its folders and files: nothing to
test on is trained on in silence.
"""

import numpy as np
import pytest

from scanline.model.datasets import DataError
from scanline.model.datasets.parts import parts_among
from scanline.model.datasets.source import open_data
from tests.support.pictures import encode, noise, write_noise


def sizes(found):
    return len(found.train), len(found.test)


SPLIT = [
    ("training_set", "test_set"),
    ("Training", "Testing"),
    ("train-images", "test-images"),
    ("seg_train/seg_train", "seg_test/seg_test"),
    ("asl_alphabet_train/asl_alphabet_train", "asl_alphabet_test/asl_alphabet_test"),
    ("train2017", "val2017"),
    ("TrainData", "ValidationData"),
    ("archive/data/TRAIN", "archive/data/dev"),
    ("training/train", "training/val"),
    ("training-set", "test-a"),
    ("Training", "PublicTest"),
    ("train", "held-out"),
    ("chest/train", "chest/chest/test"),
]


@pytest.mark.parametrize(("train", "test"), SPLIT)
def test_parts_are_known_by_their_words(tmp_path, train, test):
    files = [f"{train}/{name}/{number}.png" for name in ("cats", "dogs") for number in range(4)]
    files += [f"{test}/{name}/{number}.png" for name in ("cats", "dogs") for number in range(2)]
    found = open_data(write_noise(tmp_path, *files), classes=True)
    assert sizes(found) == (8, 4)
    assert found.labels.names == ("cats", "dogs")
    assert found.refused == ()


def test_parts_may_be_below_classes(tmp_path):
    files = [
        f"{name}/{part}/{n}.png"
        for name in ("cats", "dogs")
        for part in ("train", "test")
        for n in range(3)
    ]
    found = open_data(write_noise(tmp_path, *files), classes=True)
    assert sizes(found) == (6, 6)
    assert found.labels.names == ("cats", "dogs")


def test_names_with_other_words_are_parts_together_alone():
    assert parts_among(("steam_train", "test_tube", "bridge", "contest", "latest")) == {}
    assert parts_among(("stage1_train", "stage1_test")) == {
        "stage1_train": "train",
        "stage1_test": "test",
    }


def test_a_class_of_trains_is_a_class(tmp_path):
    files = [f"{name}/{number}.png" for name in ("car", "train") for number in range(20)]
    found = open_data(write_noise(tmp_path, *files), classes=True)
    assert (found.has_parts, found.labels.names) == (False, ("car", "train"))


@pytest.mark.parametrize("name", ["train", "test"])
def test_a_class_called_as_a_part_is_one_within_parts(tmp_path, name):
    files = [
        f"{part}/{each}/{number}.png"
        for part in ("train", "test")
        for each in ("other", name)
        for number in range(3)
    ]
    found = open_data(write_noise(tmp_path, *files), classes=True)
    assert (sizes(found), found.labels.names) == ((6, 6), ("other", name))


def test_a_folder_called_test_beside_classes_is_left_out(tmp_path):
    files = [f"{name}/{number}.png" for name in ("fail", "pass", "test") for number in range(20)]
    found = open_data(write_noise(tmp_path, *files), classes=True)
    assert (sum(sizes(found)), found.labels.names) == (40, ("fail", "pass"))
    assert len(found.refused) == 20


def test_files_of_one_folder_are_parts_by_their_names_where_all_are(tmp_path):
    files = [f"{part}_{number}.png" for part in ("train", "test") for number in range(5)]
    found = open_data(write_noise(tmp_path / "all", *files))
    assert (sizes(found), found.has_parts, len(found.notes)) == ((5, 5), True, 1)
    assert not open_data(write_noise(tmp_path / "some", *files, "0.png")).has_parts


def test_a_set_of_copies_says_what_is_left_out(tmp_path):
    write_noise(tmp_path, "0.png")
    (tmp_path / "1.png").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    (tmp_path / "@eaDir").mkdir()
    (tmp_path / "@eaDir" / "thumbnail.png").write_bytes(encode(noise(3, 4, seed=1)))
    with pytest.raises(
        DataError, match=r"one distinct picture; .*1 left out: 1.png: it is a pointer of Git LFS"
    ):
        open_data(tmp_path)


def test_an_array_that_ends_in_3_is_one_image_and_words_are_labels(tmp_path):
    colours = noise(2, 5, 4, 3)
    np.save(tmp_path / "a.npy", colours[0])
    np.save(tmp_path / "b.npy", colours[1])
    found = open_data(tmp_path)
    assert (sizes(found), found.size) == ((1, 1), "4x5 RGB")
    (tmp_path / "labelled").mkdir()
    np.save(tmp_path / "labelled" / "images.npy", noise(20, 5, 4))
    for labels in (
        np.array(["cat", "dog"] * 10),
        np.array([True, False] * 10),
        np.array([1.0, 0.0] * 10),
    ):
        np.save(tmp_path / "labelled" / "labels.npy", labels)
        found = open_data(tmp_path / "labelled", classes=True)
        assert len(found.labels.names) == 2
    np.save(tmp_path / "labelled" / "labels.npy", labels / 3)
    with pytest.raises(DataError, match="has no labels that are known as such"):
        open_data(tmp_path / "labelled", classes=True)


def test_what_is_in_no_part_is_named_and_a_test_folder_beside_others_is_not_trained_on(
    tmp_path,
):
    found = open_data(
        write_noise(tmp_path / "a", "train/0.png", "train/1.png", "test/2.png", "samples/3.png")
    )
    assert (sizes(found), [*map(str, found.refused)]) == (
        (2, 1),
        ["samples/3.png: in no folder to train or test on"],
    )
    assert sizes(
        open_data(write_noise(tmp_path / "b", "images/0.png", "images/1.png", "test/2.png"))
    ) == (2, 1)
    found = open_data(write_noise(tmp_path / "c", "test_set/0.png", "test_set/1.png"))
    assert found.notes == ("trained on, since no folder is called train: test_set",)


def test_test_pictures_without_a_class_are_left_out_and_the_split_is_by_content(
    tmp_path,
):
    files = [f"train/{name}/images/{number}.png" for name in ("n1", "n2") for number in range(20)]
    found = open_data(
        write_noise(tmp_path, *files, "val/images/40.png", "test/images/41.png"), classes=True
    )
    assert (sum(sizes(found)), found.labels.names, found.has_parts) == (40, ("n1", "n2"), False)
    reason = "unlabelled, or of a class that no training picture has"
    assert [str(refused) for refused in found.refused] == [
        f"{part}: {reason}" for part in ("test/images/41.png", "val/images/40.png")
    ]


def test_arrays_are_split_and_labelled_by_their_names(tmp_path):
    images = noise(12, 3, 4)
    labels = np.arange(12) % 2
    column = labels[:, None]
    of_keras = {
        "x_train": images[:8],
        "y_train": labels[:8],
        "x_test": images[8:],
        "y_test": labels[8:],
    }
    of_medmnist = {
        "train_images": images[:8],
        "train_labels": column[:8],
        "test_images": images[8:],
        "test_labels": column[8:],
    }
    folder = tmp_path / "npy"
    folder.mkdir()
    for name, array in of_keras.items():
        np.save(folder / f"{name}.npy", array)
    np.savez(tmp_path / "keras.npz", **of_keras)
    np.savez_compressed(tmp_path / "medmnist.npz", **of_medmnist)
    for path in (folder, tmp_path / "keras.npz", tmp_path / "medmnist.npz"):
        found = open_data(path, classes=True)
        assert sizes(found) == (8, 4), path
        assert found.labels.names == ("0", "1")
        assert found.labels.train.tolist() == [1, 2] * 4


def test_arrays_of_planes_become_pixels(tmp_path):
    colours = noise(12, 3, 5, 5)
    np.savez(tmp_path / "train", x=colours[:8])
    np.savez(tmp_path / "test", x=colours[8:])
    found = open_data(tmp_path)
    assert found.size == "5x5 RGB"
    assert (found.train[:1].reshape(5, 5, 3) == np.moveaxis(colours[0], 0, -1)).all()


def test_idx_files_of_any_set_are_arrays(tmp_path):
    images = noise(12, 3, 4)
    labels = np.uint8(range(12)) % 3
    for part, rows in (("train", slice(9)), ("test", slice(9, 12))):
        data = {"images-idx3": images[rows], "labels-idx1": labels[rows]}
        for kind, array in data.items():
            shape = b"".join(size.to_bytes(4) for size in array.shape)
            path = tmp_path / f"emnist-letters-{part}-{kind}-ubyte"
            path.write_bytes(bytes((0, 0, 8, array.ndim)) + shape + array.tobytes())
    found = open_data(tmp_path, classes=True)
    assert (sizes(found), found.labels.names) == ((9, 3), ("0", "1", "2"))


def test_arrays_of_anything_else_are_named(tmp_path):
    write_noise(tmp_path, "0.png", "1.png")
    np.save(tmp_path / "floats.npy", np.zeros((2, 3, 4)))
    np.save(tmp_path / "y_all.npy", np.arange(5))
    (tmp_path / "broken.npz").write_bytes(b"PK\3\4?")
    found = open_data(tmp_path)
    assert [str(refused) for refused in found.refused] == [
        "broken.npz: it is a broken array",
        "floats.npy: it must hold uint8 [n, H, W] or [n, H, W, 3], not float64 [2, 3, 4]",
        "y_all.npy: it holds labels",
    ]


KNOWN = {
    "train": (b"\x80\x02}q", "a Python pickle, as CIFAR-100's"),
    "train_32x32.mat": (b"MATLAB 5.0 MAT-file", "a MATLAB file, as SVHN's"),
    "set.h5": (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    "00000.tar": (
        b"0.png".ljust(257, b"\0") + b"ustar",
        "a tar archive; unpack it: tar xf 00000.tar",
    ),
    "data.mdb": (bytes(16) + b"\xde\xc0\xef\xbe", "an LMDB database"),
    "a.tfrecord-00000-of-00001": (b"\x20" + bytes(7) + b"\1\2\3\4\n\x1e", "a TFRecord file"),
    "digits.txt": (b"label,pixel0,pixel1\n1,0,0\n", "a csv table; make an array of it"),
    "archive.zip": (b"PK\3\4" + bytes(40), "a zip archive; unpack it: unzip archive.zip"),
    "data-00000-of-00001.arrow": (b"\xff\xff\xff\xff", "an Arrow file of Hugging Face's datasets"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_folder_without_pictures_says_what_it_is(tmp_path, name):
    begin, what = KNOWN[name]
    (tmp_path / name).write_bytes(begin)
    (tmp_path / "LICENSE.txt").write_bytes(b"text")
    (tmp_path / "zzz").write_bytes(b"text")
    with pytest.raises(DataError) as error:
        open_data(tmp_path)
    assert f"{name}: it is {what}" in str(error.value)
