"""What a file is that is no picture, by its first bytes or its name, and how its pictures can be
read."""

import re
from pathlib import Path

from scanline.model.datasets.files import beginning
from scanline.model.images.saving import CLASSES, HEADINGS

FIRST = 600  # bytes that are looked at
# In the sentences FILE is the file's name. A pickle or a torch file may run code when it is loaded.
SAVE = "make an array of it in its folder: python -c \"import numpy, {}; f = {}; numpy.savez('FILE.npz', x={}, y={})\""
PICKLE = SAVE.format(
    "pickle",
    "pickle.load(open('FILE', 'rb'), encoding='bytes')",
    "f[b'data'].reshape(-1, 3, 32, 32)",
    "f.get(b'fine_labels', f.get(b'labels'))",
)
MATLAB = SAVE.format(
    "scipy.io", "scipy.io.loadmat('FILE')", "f['X'].transpose(3, 0, 1, 2)", "f['y'].ravel()"
)
CSV = SAVE.format(
    "os",
    "numpy.loadtxt('FILE', dtype='uint8', delimiter=',', skiprows=1)",
    "f[:, -784:].reshape(-1, 28, 28)",
    "f[:, 0] if f.shape[1] > 784 else []",
)
HDF5 = (
    SAVE.format("h5py", "h5py.File('FILE')", "f['x'][:]", "f['y'][:]")
    + ", with its own names for x and y"
)
TORCH = SAVE.format("torch", "torch.load('FILE')", "f[0].numpy()", "f[1].numpy()")
BINARY = (
    SAVE.format(
        "os",
        "numpy.fromfile('FILE', 'uint8').reshape(-1, 3074)",
        "f[:, 2:].reshape(-1, 3, 32, 32)",
        "f[:, 1]",
    )
    + ", as CIFAR-100's are"
)
ARROW = (
    "python -c \"import datasets; datasets.Dataset.from_file('FILE').to_parquet('FILE.parquet')\""
)
BEGINNINGS = {
    rb"\x80[\x02-\x05]|\(dp": f"a Python pickle, as CIFAR-100's batches are; if you trust it, {PICKLE}",
    rb"\x89HDF\r\n": f"an HDF5 file; {HDF5}",
    rb"MATLAB ": f"a MATLAB file, as SVHN's are; {MATLAB}",
    rb"ARROW1|\xff{4}": f"an Arrow file of Hugging Face's datasets; make a Parquet file of it: {ARROW}",
    rb".{16}\xde\xc0\xef\xbe": "an LMDB database; write its values into a folder, each as a file",
    rb".{4}\0{4}.{4}\n": "a TFRecord file; write its pictures into a folder, each as a file",
    rb".{257}ustar": "a tar archive; unpack it: tar xf FILE",
    rb"PK\x03\x04.{26}[^/]*/(data\.pkl|version)": f"a torch file; if you trust it, {TORCH}",
    rb"PK\x03\x04": "a zip archive; unpack it: unzip FILE",
    rb"7z\xbc\xaf|Rar!": "an archive; unpack it: 7z x FILE",
    rb"\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd": "a compressed file; unpack it: tar xf FILE, or gunzip or its like",
    rb"version https://git-lfs": "a pointer of Git LFS to the file itself; fetch it: git lfs pull",
    rb"\s*(?i:<!doctype html|<html)": "a page of HTML; what was to be downloaded may be gone, or want a login",
    rb"\x93scan": "a file of Scanline's codes; decompress it: scanline decompress FILE -o FOLDER",
    rb"SQLite format 3": "an SQLite database; write its pictures into a folder, each as a file",
    rb"%PDF": "a PDF; make pictures of its pages: pdftoppm -png FILE page",
    rb"\x1aE\xdf\xa3|.{4}ftyp(?!avi|hei|mif)": "a film; make pictures of it: ffmpeg -i FILE %05d.png",
    rb"\s*<(\?xml|svg)": "XML or a drawing in SVG; make a picture of a drawing: rsvg-convert FILE -o FILE.png",
    rb"[^\n]*label,[^\n]*pixel|(\d+,){50}": f"a csv table; {CSV}",
}
KINDS = {re.compile(begin, re.DOTALL): what for begin, what in BEGINNINGS.items()}


def what_it_is(path: Path) -> str:
    """Return what a file is, and how it can be read; "" for a picture, or what is not known."""
    begin = beginning(path, FIRST)
    if path.name == CLASSES and begin.startswith(HEADINGS[0].encode()):
        return "the table of the classes of pictures that scanline has written"
    what = next((what for pattern, what in KINDS.items() if pattern.match(begin)), "")
    if not what and path.suffix.lower() == ".csv":
        what = "a csv table; for --data make a folder of its pictures, or an array"
    if not what and path.suffix.lower() == ".bin":
        what = f"numbers without a header, in a layout of their publisher's; {BINARY}"
    return what.replace("FILE", path.name)
