"""Opens picture files whose decoding cannot take long: a decoder that has begun cannot be ended.

A picture's format is read from its bytes, never from its name or declared type. What a file may
cost beyond its pixels (scans, strips, pieces, text) is bounded before or while it is opened.
"""

import io
import re
import warnings

from PIL import Image, ImageFile, JpegImagePlugin, PngImagePlugin, TiffImagePlugin

FORMATS = ("PNG", "WEBP", "JPEG", "BMP")
# Of files, what people have. Pillow reads more, by decoders that few use, by Ghostscript,
# and out of files of another format.
FILE_FORMATS = (
    *FORMATS,
    "GIF",
    "DIB",
    "TIFF",
    "AVIF",
    "JPEG2000",
    "PPM",
    "TGA",
    "ICO",
    "QOI",
    "DDS",
    "PCX",
    "SGI",
)
# a file's first bytes
JPEG = b"\xff\xd8\xff"
ICO = b"\0\0\1\0"
# the marker of a JPEG's segment; restarts are within a scan
SEGMENT = re.compile(rb"\xff([\xc0-\xcf\xd8-\xfe])")
SCAN = b"\xda"
END = b"\xd9"
OFFSETS = TiffImagePlugin.STRIPOFFSETS, TiffImagePlugin.TILEOFFSETS  # a TIFF's
# A picture that is too large is refused unread: a warning of each would only fill a log.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
PngImagePlugin.MAX_TEXT_CHUNK = 2**16  # bytes of one decompressed text or colour profile of a PNG
PngImagePlugin.MAX_TEXT_MEMORY = 2**18  # bytes of all of them together
# Of a JPEG. Photographs have about 10 scans; each may take 40 milliseconds at 4
# million pixels, however few its bytes.
MAX_SCANS = 32
MAX_SEGMENTS = 1000
SEARCHED_BYTES = 2**17  # at once, since the interpreter's lock is held meanwhile: 2 milliseconds
# bytes that reading a piece of a file counts for, besides its
# own: it takes Python some microseconds
PIECE = 1024
MAX_STRIPS = 2**16
MAX_PYTHON_PIXELS = 2**18  # of formats whose decoder is written in Python: some microseconds each
KEY_SCALES = {"L;2": 85, "L;4": 17}  # of grey PNGs whose bytes hold several pixels


class SlowError(ValueError):
    """Why a file is not decoded: it might take long."""


class _Pieces(io.BytesIO):
    """A file in memory that can be read four times as a whole, or in as many pieces as a file of
    that size may need."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.left = 4 * (len(data) + 2**20)  # bytes

    def read(self, size: int | None = -1, /) -> bytes:
        return self._counted(super().read(size))

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._counted(super().readline(size))

    def _counted(self, piece: bytes) -> bytes:
        self.left -= len(piece) + PIECE
        if self.left < 0:
            raise SlowError("it has too many parts")
        return piece


class _Jpeg(JpegImagePlugin.JpegImageFile):
    """A JPEG, of several pictures the first, whose EXIF Pillow does not parse: it may take minutes
    and gigabytes."""

    def _read_dpi_from_exif(self) -> None:
        pass


class _Tiff(TiffImagePlugin.TiffImageFile):
    """A TIFF of not too many strips or tiles, for each of which Pillow takes some microseconds."""

    def _setup(self) -> None:
        if any(len(self.tag_v2.get(tag, ())) > MAX_STRIPS for tag in OFFSETS):
            raise SlowError(f"it has more than {MAX_STRIPS:,} strips or tiles")
        super()._setup()


def file_formats() -> tuple[str, ...]:
    """Return the formats of files that a user has."""
    Image.init()  # registers the formats
    return FILE_FORMATS


def open_file(data: bytes, formats: tuple[str, ...]) -> ImageFile.ImageFile:
    """Return the picture of a file of one of the formats, not decoded yet; a SlowError where that
    might take long, and any exception where the file is broken."""
    file = _Pieces(data)
    if data.startswith(JPEG):
        _check_scans(data)
        picture: ImageFile.ImageFile = _Jpeg(file)
    elif "TIFF" in formats and data.startswith(tuple(TiffImagePlugin.PREFIXES)):
        picture = _Tiff(file)
    else:
        if data.startswith(ICO):
            _check_icon(data)
        picture = Image.open(file, formats=formats)
    _scale_transparency(picture)
    if any(tile[0] in Image.DECODERS for tile in picture.tile):
        size = picture.width * picture.height
        if size > MAX_PYTHON_PIXELS:
            raise SlowError(
                f"it has {size:,} pixels, more than the maximum of {MAX_PYTHON_PIXELS:,} of its format"
            )
        file.left += 2 * size * PIECE
    return picture


def _scale_transparency(picture: ImageFile.ImageFile) -> None:
    """Let the transparent value have 8 bits: Pillow compares it, as the file has it, with pixels
    that it has scaled to 8 bits."""
    depth = picture.tile[0].args if picture.tile else None
    transparent = picture.info.get("transparency")
    if depth in KEY_SCALES and isinstance(transparent, int):
        picture.info["transparency"] = KEY_SCALES[depth] * transparent
    elif depth == "RGB;16B" and transparent is not None:
        picture.info["transparency"] = tuple(value >> 8 for value in transparent)


def _check_scans(data: bytes) -> None:
    """Raise a SlowError where a JPEG has too many scans, found as libjpeg finds them: it skips what
    is between segments, and thumbnails and videos are within a segment or behind the end."""
    place = 2
    segments = 0
    scans = 0
    while place < len(data):
        marker = SEGMENT.search(data, place, place + SEARCHED_BYTES)
        if marker is None:
            place += SEARCHED_BYTES - 1
            continue
        if marker[1] == END:
            return
        segments += 1
        scans += marker[1] == SCAN
        if scans > MAX_SCANS:
            raise SlowError(f"it has more than {MAX_SCANS} scans")
        if segments > MAX_SEGMENTS:
            raise SlowError(f"it has more than {MAX_SEGMENTS:,} segments")
        length = int.from_bytes(data[marker.end() : marker.end() + 2])
        place = marker.end() + max(2, length)


def _check_icon(data: bytes) -> None:
    """Raise a SlowError where a picture of an ICO has run lengths: Pillow opens and decodes it at
    once, in Python."""
    count = int.from_bytes(data[4:6], "little")
    for entry in range(18, 18 + 16 * count, 16):
        compression = int.from_bytes(data[entry : entry + 4], "little") + 16
        if int.from_bytes(data[compression : compression + 4], "little") in (1, 2):
            raise SlowError("it is an icon with run lengths")
