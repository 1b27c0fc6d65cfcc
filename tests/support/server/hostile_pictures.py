"""Image files of 5 x 7 pixels that are broken, hostile, or of a kind that few programs write."""

import io
import struct
import zlib
from typing import Any

from PIL import Image, ImageCms

from tests.support.pictures import encode, noise

GREY = noise(7, 5)
COLOUR = noise(7, 5, 3)
SIGNATURE = b"\x89PNG\r\n\x1a\n"
HUGE = 2**31 - 1


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(width: int = 5, height: int = 7, depth: int = 8, colour: int = 0) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))


def pixels(rows: int = 7, filter_type: int = 0) -> bytes:
    return chunk(b"IDAT", zlib.compress((bytes([filter_type]) + bytes(5)) * rows))


END = chunk(b"IEND", b"")
WHOLE = SIGNATURE + header() + pixels() + END


def bomb() -> bytes:
    """A decompression bomb: some hundred kilobytes that decode to five gigapixels."""
    return SIGNATURE + header(70_000, 70_000) + chunk(b"IDAT", zlib.compress(bytes(50_000_000), 1)) + END


def converted(mode: str, kind: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(COLOUR).convert(mode).save(out, kind, **options)
    return out.getvalue()


def turned() -> bytes:
    """A JPEG that asks to be shown upside down."""
    exif = Image.Exif()
    exif[0x0112] = 3
    return encode(GREY, "JPEG", exif=exif)


def with_profile(kind: str) -> bytes:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return encode(COLOUR, kind, icc_profile=profile)


PICTURES: dict[str, bytes] = {  # all but the bomb, which takes a while to make
    "a wrong CRC of the pixels": SIGNATURE + header() + pixels()[:-4] + bytes(4) + END,
    "no pixels": SIGNATURE + header() + END,
    "pixels before the header": SIGNATURE + pixels() + header() + END,
    "two headers": SIGNATURE + header() + header(50, 70) + pixels() + END,
    "too many rows": SIGNATURE + header() + pixels(900) + END,
    "an unknown filter": SIGNATURE + header() + pixels(filter_type=9) + END,
    "pixels that are no zlib": SIGNATURE + header() + chunk(b"IDAT", b"seven") + END,
    "a palette that is not there": SIGNATURE + header(colour=3) + pixels() + END,
    "an unknown chunk that must be known": SIGNATURE + header() + chunk(b"ABCD", b"x") + pixels() + END,
    "a chunk that claims two gigabytes": SIGNATURE + header() + struct.pack(">I", HUGE) + b"IDAT" + bytes(40),
    "no width": SIGNATURE + header(width=0) + pixels() + END,
    "a huge size": SIGNATURE + header(HUGE, HUGE) + pixels() + END,
    "too many chunks": SIGNATURE + header() + chunk(b"prVt", b"") * 1001 + pixels() + END,
    "too many segments": encode(GREY, "JPEG")[:2] + b"\xff\xfe\0\2" * 1001 + encode(GREY, "JPEG")[2:],
    "too many fill bytes": encode(GREY, "JPEG")[:2] + b"\xff" * 1001 + encode(GREY, "JPEG")[2:],
    "a BMP of a huge size": encode(GREY, "BMP")[:18] + struct.pack("<ii", HUGE, HUGE) + encode(GREY, "BMP")[26:],
    "a BMP of a negative size": encode(GREY, "BMP")[:18] + struct.pack("<ii", -5, -7) + encode(GREY, "BMP")[26:],
    "a TIFF": encode(GREY, "TIFF"),
    "an icon": encode(noise(32, 32), "ICO"),
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 7\n",
    "CMYK": converted("CMYK", "JPEG"),
    "a JPEG that is turned": turned(),
    "a PNG with a profile": with_profile("PNG"),
    "an empty colour profile behind the pixels": SIGNATURE + header() + pixels() + chunk(b"iCCP", b"") + END,
    "empty chunks behind the pixels": SIGNATURE
    + header()
    + pixels()
    + b"".join(chunk(kind, b"") for kind in (b"tEXt", b"zTXt", b"iTXt", b"pHYs", b"eXIf", b"gAMA", b"cHRM", b"tRNS"))
    + END,
    "text behind the end": WHOLE + b"seven" * 1000,
    "two pictures": WHOLE + WHOLE,
    "noise": noise(1000).tobytes(),
}
