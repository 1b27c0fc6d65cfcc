"""Small CIFAR-10 files of every published form: binary batches, and pickles as
Python 2 and 3 write them in a tar.
"""

import io
import pickle
import struct
import tarfile

import numpy as np

TRAIN = [f"data_batch_{i}" for i in range(1, 6)]
TAR = "cifar-10-python.tar.gz"


def planes(batch, images=2):
    """[images, 3072] uint8 as the files hold them: all red, then all green, then all blue."""
    return np.random.default_rng(batch).integers(0, 256, (images, 3072), np.uint8)


def interleaved(planes):
    """The same images as we hold them, pixel by pixel."""
    return np.stack([planes[:, :1024], planes[:, 1024:2048], planes[:, 2048:]], axis=-1).reshape(
        len(planes), 3072
    )


def binary(planes, label=9):
    return b"".join(bytes([label]) + row.tobytes() for row in planes)


def python_2(planes):
    """The opcodes of cPickle's protocol 2, as in the published
    files: every string is a Python 2 str.
    """

    def text(value):
        return (
            b"U" + bytes([len(value)]) + value
            if len(value) < 256
            else b"T" + struct.pack("<i", len(value)) + value
        )

    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    shape = b"J" + struct.pack("<i", len(planes)) + b"M" + struct.pack("<H", 3072) + b"\x86"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array += b"(K\x01" + shape + dtype + b"\x89" + text(planes.tobytes()) + b"tb"
    labels = b"](" + b"K\x06" * len(planes) + b"e"
    name = text(b"batch_label") + text(b"training batch 1 of 5")
    return b"\x80\x02}(" + name + text(b"labels") + labels + text(b"data") + array + b"u."


def python_3(planes, key="data", protocol=2):
    return pickle.dumps({"labels": [6] * len(planes), key: planes}, protocol)


def write_tar(directory, members):
    path = directory / TAR
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path
