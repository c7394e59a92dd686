"""The head of a JPEG file, up to its first scan: size, components, tables, EXIF.

Goes in: the file's bytes. Comes out: `JpegHead`, or ValueError in plain words. Nothing is decoded.
Definitions: ITU-T T.81, annex B; the Adobe marker as in T.872, 6.5.3.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

START_OF_SCAN = 0xDA
QUANTISER = 0xDB
APP1, APP14 = 0xE1, 0xEE
# All start-of-frame markers; C4, C8 and CC mean other things.
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Baseline, extended and progressive Huffman: decoders agree on these.
COMMON_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
EXIF = b"Exif\0\0"


@dataclass(frozen=True, slots=True)
class Table:
    """A quantiser table: where its 64 steps lie, in zigzag order."""

    offset: int  # in the file, of the first step
    wide: bool  # two bytes a step


@dataclass(slots=True)
class JpegHead:
    frame: int = 0  # the start-of-frame marker, 0xC0 for baseline
    bits: int = 8  # a sample
    width: int = 0  # as stored, before any EXIF rotation
    height: int = 0
    components: list[int] = field(default_factory=list)  # quantiser table of each
    tables: dict[int, list[Table]] = field(default_factory=dict)  # all definitions of each table
    adobe_transform: int | None = None  # 0: RGB or CMYK as it is, 1: YCbCr, 2: YCCK
    exif: bytes = b""  # TIFF structure
    scan: int = 0  # offset of the first byte after the head


def segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(marker, offset of contents, offset of the end) of each segment, first scan included."""
    if data[:2] != b"\xff\xd8":
        raise ValueError("no JPEG start marker")
    at = 2
    while True:
        if at + 4 > len(data):
            raise ValueError("the file ends inside its head")
        if data[at] != 0xFF:
            raise ValueError(f"no marker at byte {at}")
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        end = at + 2 + length
        if length < 2 or end > len(data):
            raise ValueError("the file ends inside its head")
        yield marker, at + 4, end
        if marker == START_OF_SCAN:
            return
        at = end


def read_head(data: bytes) -> JpegHead:
    """Everything up to the first scan. Raises ValueError if the file is cut or broken there."""
    head = JpegHead()
    for marker, start, end in segments(data):
        body = data[start:end]
        if marker in FRAMES:
            if len(body) < 6 or len(body) < 6 + 3 * body[5]:
                raise ValueError("a broken frame header")
            head.frame, head.bits = marker, body[0]
            head.height = int.from_bytes(body[1:3], "big")
            head.width = int.from_bytes(body[3:5], "big")
            head.components = [body[6 + 3 * i + 2] for i in range(body[5])]
        elif marker == QUANTISER:
            _read_tables(head, data, start, end)
        elif marker == APP1 and body.startswith(EXIF) and not head.exif:
            head.exif = body[len(EXIF) :]
        elif marker == APP14 and body.startswith(b"Adobe") and len(body) >= 12:
            head.adobe_transform = body[11]
        elif marker == START_OF_SCAN:
            head.scan = end
    if not head.frame:
        raise ValueError("no frame header before the first scan")
    return head


def _read_tables(head: JpegHead, data: bytes, start: int, end: int) -> None:
    while start < end:
        wide, number = data[start] >> 4 != 0, data[start] & 15
        head.tables.setdefault(number, []).append(Table(start + 1, wide))
        start += 1 + (128 if wide else 64)
    if start != end:
        raise ValueError("a broken quantiser table")
