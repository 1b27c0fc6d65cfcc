"""Image files of 5 x 7 pixels that are broken, hostile, or of a kind that few programs write."""

import io
import struct
import zlib

from PIL import Image, ImageCms

from tests.support.pictures import encode, noise

GREY = noise(7, 5)
COLOUR = noise(7, 5, 3)
SIGNATURE = b"\x89PNG\r\n\x1a\n"
HUGE = 2**31 - 1


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(width=5, height=7, depth=8, colour=0):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))


def pixels(rows=7, filter_type=0):
    return chunk(b"IDAT", zlib.compress((bytes([filter_type]) + bytes(5)) * rows))


END = chunk(b"IEND", b"")


def png(*chunks):
    return SIGNATURE + b"".join(chunks) + END


WHOLE = png(header(), pixels())
EMPTY = (b"tEXt", b"zTXt", b"iTXt", b"pHYs", b"eXIf", b"gAMA", b"cHRM", b"tRNS")


def bomb():
    """A decompression bomb: some hundred kilobytes that decode to five gigapixels."""
    return (
        SIGNATURE
        + header(70_000, 70_000)
        + chunk(b"IDAT", zlib.compress(bytes(50_000_000), 1))
        + END
    )


def converted(mode, kind="PNG", **options):
    out = io.BytesIO()
    Image.fromarray(COLOUR).convert(mode).save(out, kind, **options)
    return out.getvalue()


def turned():
    """A JPEG that asks to be shown upside down."""
    exif = Image.Exif()
    exif[0x0112] = 3
    return encode(GREY, "JPEG", exif=exif)


def of_scans(count, picture=GREY):
    """A progressive JPEG whose last scan, which refines what is there, is
    repeated until there are so many.
    """
    whole = encode(picture, "JPEG", progressive=True)
    scan = whole[whole.rindex(b"\xff\xda") : -2]
    return whole[:-2] + scan * (count - whole.count(b"\xff\xda")) + whole[-2:]


def in_jpeg(junk):
    """A JPEG with other bytes behind its first."""
    return encode(GREY, "JPEG")[:2] + junk + encode(GREY, "JPEG")[2:]


def run_lengths(size):
    """A BMP of that many pixels a side with run lengths, which Pillow decodes in Python."""
    head = struct.pack("<IHHIIiiHHIIiiII", 0, 0, 0, 1078, 40, size, size, 1, 8, 1, 0, 0, 0, 256, 0)
    return b"BM" + head + bytes(1024) + b"\1\7\0\0" * size


def icon(size):
    """An ICO of a picture with run lengths, whose size the entry does not say."""
    picture = run_lengths(size)[14:] + bytes(size * size // 8)
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 0, 0, 0, 0, 1, 8, len(picture), 22) + picture


def of_strips(count):
    """A TIFF of one column whose strips have a pixel each."""
    tags = [(256, 1), (257, count), (258, 8), (259, 1), (262, 1), (277, 1), (278, 1)]
    entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags]
    entries.insert(5, struct.pack("<HHII", 273, 4, count, 122))
    head = b"II*\0" + struct.pack("<IH", 8, len(entries) + 1) + b"".join(entries)
    return head + struct.pack("<HHIII", 279, 4, count, 122, 0) + struct.pack("<I", 1) * count


def boxed(picture):
    """An IPTC file of 5 x 7 pixels that holds a whole file, which Pillow
    would open, of whatever format it is.
    """
    fields = [
        (3, 20, b"\0\5"),
        (3, 30, b"\0\7"),
        (3, 60, b"\1\0"),
        (3, 120, b"\5"),
        (8, 10, picture),
    ]
    return b"".join(
        struct.pack(">BBBH", 0x1C, record, field, len(data)) + data
        for record, field, data in fields
    )


def with_profile(kind):
    return encode(
        COLOUR, kind, icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    )


PICTURES = {  # all but the bomb, which takes a while to make
    "a wrong CRC of the pixels": png(header(), pixels()[:-4], bytes(4)),
    "no pixels": png(header()),
    "pixels before the header": png(pixels(), header()),
    "two headers": png(header(), header(50, 70), pixels()),
    "too many rows": png(header(), pixels(900)),
    "an unknown filter": png(header(), pixels(filter_type=9)),
    "pixels that are no zlib": png(header(), chunk(b"IDAT", b"seven")),
    "a palette that is not there": png(header(colour=3), pixels()),
    "an unknown chunk that must be known": png(header(), chunk(b"ABCD", b"x"), pixels()),
    "a chunk that claims two gigabytes": SIGNATURE
    + header()
    + struct.pack(">I", HUGE)
    + b"IDAT"
    + bytes(40),
    "no width": png(header(width=0), pixels()),
    "a huge size": png(header(HUGE, HUGE), pixels()),
    "too many chunks": png(header(), chunk(b"prVt", b"") * 3000, pixels()),
    "too many scans": of_scans(5000),
    "too many segments": in_jpeg(b"\xff\xfe\0\2" * 1001),
    "too many segments of no length": in_jpeg(b"\xff\xfe\0\0" * 1001),
    "too many segments behind a stray byte": in_jpeg(b"\xff\xfe\0\2?" + b"\xff\xfe\0\2" * 1001),
    "too many fill bytes": in_jpeg(b"\xff" * 5000),
    "too many stray bytes": in_jpeg(b"\xff\xfe\0\2" + b"?" * 5000),
    "a large BMP of run lengths": run_lengths(1024),
    "a BMP of a huge size": encode(GREY, "BMP")[:18]
    + struct.pack("<ii", HUGE, HUGE)
    + encode(GREY, "BMP")[26:],
    "a BMP of a negative size": encode(GREY, "BMP")[:18]
    + struct.pack("<ii", -5, -7)
    + encode(GREY, "BMP")[26:],
    "a TIFF": encode(GREY, "TIFF"),
    "an icon": encode(noise(32, 32), "ICO"),
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 7\n",
    "CMYK": converted("CMYK", "JPEG"),
    "a JPEG that is turned": turned(),
    "a PNG with a profile": with_profile("PNG"),
    "an empty colour profile behind the pixels": png(header(), pixels(), chunk(b"iCCP", b"")),
    "empty chunks behind the pixels": png(
        header(), pixels(), *(chunk(kind, b"") for kind in EMPTY)
    ),
    "text behind the end": WHOLE + b"seven" * 1000,
    "two pictures": WHOLE + WHOLE,
    "noise": noise(1000).tobytes(),
}
