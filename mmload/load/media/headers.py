"""What the headers of image files say: size, frames, rotation and whatever may surprise a server.

Goes in: a file's bytes. Comes out: `Header`, or None if it is no image of a known format. Nothing
is decoded, and no input raises. Formats: JPEG, PNG, WebP, GIF, BMP, told by content, not name.
"""

import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from mmload.load.media import jpeg


class Oddity(enum.StrEnum):
    """What is unusual about a file, in words that follow its name."""

    empty = "the file is empty"
    unknown = "neither an image nor a video of a known format"
    truncated = "cut short: the end is missing"
    damaged = "the header is damaged"
    undecodable = "no video in it that OpenCV can open"
    other_suffix = "the name says another format than the content"
    rotated = "stored rotated, with a note to turn it"
    cmyk = "CMYK colours"
    palette = "palette colours"
    deep = "more than 8 bits a colour"
    transparent = "transparency"
    animated = "several frames"


@dataclass(frozen=True, slots=True)
class Header:
    mime: str
    width: int = 0  # as stored
    height: int = 0
    frames: int = 1
    orientation: int = 1  # EXIF, 1..8; 1: as stored
    oddities: tuple[Oddity, ...] = ()


class _Cut(Exception):
    """The file ends before its structure does; carries what was known by then."""

    def __init__(self, header: Header) -> None:
        super().__init__()
        self.header = header


def read_header(data: bytes) -> Header | None:
    """The header of an image file. A damaged or cut file is one with that oddity."""
    known = next((f for f in _FORMATS if data.startswith(f[0])), None)
    if known is None or (known[0] == b"RIFF" and data[8:12] != b"WEBP"):
        return None
    _, mime, read = known
    try:
        header = read(data)
        if header.width <= 0 or header.height <= 0:
            raise ValueError("no size")
    except _Cut as cut:
        return _with(cut.header, Oddity.truncated)
    except (ValueError, struct.error, IndexError):
        return Header(mime, oddities=(Oddity.damaged,))
    if header.orientation != 1:
        header = _with(header, Oddity.rotated)
    return header if header.frames == 1 else _with(header, Oddity.animated)


def exif_orientation(tiff: bytes) -> int:
    """The orientation tag (0x0112) of an EXIF block, 1..8; 1 if there is none or it is broken."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    try:
        if order is not None:
            (at,) = struct.unpack_from(order + "I", tiff, 4)
            (entries,) = struct.unpack_from(order + "H", tiff, at)
            for entry in range(entries):
                tag, kind, _, value = struct.unpack_from(order + "HHIH", tiff, at + 2 + 12 * entry)
                if tag == 0x0112 and kind == 3 and 1 <= value <= 8:
                    return int(value)
    except struct.error:
        pass
    return 1


def _with(header: Header, oddity: Oddity) -> Header:
    return replace(header, oddities=(*header.oddities, oddity))


def _jpeg(data: bytes) -> Header:
    head = jpeg.read_head(data)
    oddities = []
    if len(head.components) == 4:
        oddities.append(Oddity.cmyk)
    if head.bits != 8:
        oddities.append(Oddity.deep)
    header = Header(
        "image/jpeg",
        head.width,
        head.height,
        orientation=exif_orientation(head.exif),
        oddities=tuple(oddities),
    )
    # Inside a scan 0xFF is always followed by 0 or a restart marker, so this is the end of image
    # wherever it is; cameras append other things after it.
    if data.find(b"\xff\xd9", head.scan) < 0:
        raise _Cut(header)
    return header


def _png(data: bytes) -> Header:
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    oddities = []
    if colour == 3:
        oddities.append(Oddity.palette)
    if depth == 16:
        oddities.append(Oddity.deep)
    if colour in (4, 6):
        oddities.append(Oddity.transparent)
    header = Header("image/png", width, height, oddities=tuple(oddities))
    if data[12:16] != b"IHDR":
        raise ValueError("no IHDR")
    at = 8
    while True:
        if at + 12 > len(data):
            raise _Cut(header)
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length
        if kind == b"IEND":
            return header
        if kind == b"tRNS":
            header = _with(header, Oddity.transparent)
        elif kind == b"acTL" and length >= 4:
            header = replace(header, frames=int.from_bytes(body[:4], "big"))
        elif kind == b"eXIf":
            header = replace(header, orientation=exif_orientation(body))


def _webp(data: bytes) -> Header:
    (riff,) = struct.unpack_from("<I", data, 4)
    header, frames = Header("image/webp"), 0
    at, end = 12, min(len(data), 8 + riff)
    while at + 8 <= end:
        kind, (length,) = data[at : at + 4], struct.unpack_from("<I", data, at + 4)
        body = data[at + 8 : at + 8 + length]
        if kind == b"VP8X":
            width = int.from_bytes(body[4:7], "little") + 1
            height = int.from_bytes(body[7:10], "little") + 1
            header = replace(header, width=width, height=height)
            if body[0] & 0x10:
                header = _with(header, Oddity.transparent)
        elif kind == b"VP8 " and not header.width:
            width, height = struct.unpack_from("<HH", body, 6)
            header = replace(header, width=width & 0x3FFF, height=height & 0x3FFF)
        elif kind == b"VP8L" and not header.width:
            (bits,) = struct.unpack_from("<I", body, 1)
            header = replace(header, width=(bits & 0x3FFF) + 1, height=(bits >> 14 & 0x3FFF) + 1)
            if bits >> 28 & 1:
                header = _with(header, Oddity.transparent)
        elif kind == b"ANMF":
            frames += 1
        elif kind == b"EXIF":
            tiff = body.removeprefix(jpeg.EXIF)
            header = replace(header, orientation=exif_orientation(tiff))
        at += 8 + length + (length & 1)
    header = replace(header, frames=max(1, frames))
    if 8 + riff > len(data):
        raise _Cut(header)
    return header


def _gif(data: bytes) -> Header:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    frames = 0
    at = 13 + _gif_colours(flags)
    while at < len(data) and data[at] != 0x3B:  # trailer
        kind = data[at]
        if kind == 0x2C and at + 10 <= len(data):  # image
            frames += 1
            at += 11 + _gif_colours(data[at + 9])
        elif kind == 0x21:  # extension
            at += 2
        else:
            break
        while at < len(data) and data[at]:  # sub-blocks, up to an empty one
            at += 1 + data[at]
        at += 1
    header = Header("image/gif", width, height, frames=max(1, frames))
    if at >= len(data) or not frames:
        raise _Cut(header)
    if data[at] != 0x3B:
        raise ValueError("an unknown block")
    return header


def _gif_colours(flags: int) -> int:
    """Bytes of the colour table that these flags announce."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _bmp(data: bytes) -> Header:
    size, start, info = struct.unpack_from("<I4xII", data, 2)
    if info == 12:  # the OS/2 header
        width, height, _, depth = struct.unpack_from("<HHHH", data, 18)
        packed = 0
    else:
        width, height, _, depth, packed = struct.unpack_from("<iiHHI", data, 18)
    height = abs(height)  # below 0: rows run downwards
    header = Header(
        "image/bmp", width, height, oddities=(Oddity.palette,) if 0 < depth <= 8 else ()
    )
    plain = packed in (0, 3)
    needed = start + height * (-(-width * depth // 32) * 4) if plain else size
    if needed > len(data):
        raise _Cut(header)
    return header


_FORMATS: Final[tuple[tuple[bytes, str, Callable[[bytes], Header]], ...]] = (
    (b"\xff\xd8\xff", "image/jpeg", _jpeg),
    (b"\x89PNG\r\n\x1a\n", "image/png", _png),
    (b"RIFF", "image/webp", _webp),
    (b"GIF87a", "image/gif", _gif),
    (b"GIF89a", "image/gif", _gif),
    (b"BM", "image/bmp", _bmp),
)
