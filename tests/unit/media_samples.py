"""Small media files made by hand, for the tests of `load.media`."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmload.load.media.opencv import Pixels, cv2


def quadrants(width: int = 48, height: int = 32) -> Pixels:
    """Red, green / blue, grey: tells every turn and mirroring. Values 20..230, blue-green-red."""
    pixels = np.zeros((height, width, 3), np.uint8)
    rows, columns = height // 2, width // 2
    pixels[:rows, :columns] = (20, 20, 230)
    pixels[:rows, columns:] = (20, 230, 20)
    pixels[rows:, :columns] = (230, 20, 20)
    pixels[rows:, columns:] = (128, 128, 128)
    return pixels


def encoded(suffix: str, pixels: NDArray[Any], *flags: int) -> bytes:
    done, data = cv2.imencode(suffix, pixels, list(flags))
    assert done
    return data.tobytes()


def tiff_orientation(orientation: int, order: str = "<") -> bytes:
    """An EXIF block with one tag."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    entry = struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    return mark + struct.pack(order + "IH", 8, 1) + entry + bytes(4)


def jpeg_with(data: bytes, marker: int, body: bytes) -> bytes:
    """A JPEG with one more segment at its start."""
    return data[:2] + bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body + data[2:]


def cmyk_jpeg(inks: Sequence[int], side: int = 8) -> bytes:
    """A baseline JPEG of one 8x8 block: four components of one value each, Adobe marker 0.

    Steps of 8 make the DC number of a flat block its value less 128, exactly. DC codes: four bits
    for each length 0..11; AC: one bit for end of block.
    """
    table = b"\0" + bytes([8] * 64)
    frame = bytes([8]) + struct.pack(">HH", side, side) + b"\x04"
    frame += b"".join(bytes([i, 0x11, 0]) for i in range(1, 5))
    dc = b"\0" + bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12))
    ac = b"\x10" + bytes([1] + [0] * 15) + b"\0"
    scan = b"\x04" + b"".join(bytes([i, 0]) for i in range(1, 5)) + bytes([0, 63, 0])
    bits = ""
    for ink in inks:
        number = ink - 128
        length = abs(number).bit_length()
        bits += f"{length:04b}"
        if length:
            bits += f"{number if number > 0 else number + (1 << length) - 1:0{length}b}"
        bits += "0"
    bits += "1" * (-len(bits) % 8)
    body = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    out = b"\xff\xd8"
    for marker, content in ((0xC4, dc), (0xC4, ac), (0xDB, table), (0xC0, frame), (0xDA, scan)):
        out += bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content
    return jpeg_with(out + body + b"\xff\xd9", 0xEE, b"Adobe\0\x64\0\0\0\0\0")


def png(width: int, height: int, depth: int, colour: int, rows: bytes, *extra: bytes) -> bytes:
    """A PNG of rows (each with its filter byte); chunks (kind + body) go before the data."""

    def chunk(kind_and_body: bytes) -> bytes:
        return (
            struct.pack(">I", len(kind_and_body) - 4)
            + kind_and_body
            + struct.pack(">I", zlib.crc32(kind_and_body))
        )

    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = (head, *extra, b"IDAT" + zlib.compress(rows), b"IEND")
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(chunk, chunks))


def palette_png(*extra: bytes) -> bytes:
    """4 x 2, palette of red, green, blue, white: red green blue white / white blue green red."""
    palette = b"PLTE" + bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255])
    return png(4, 2, 8, 3, b"\0\0\1\2\3\0\3\2\1\0", palette, *extra)


def gif(frames: int, width: int = 2, height: int = 2, delay: int = 10) -> bytes:
    """Frames of one colour each, of a table of four: black, red, green, blue, black, ..."""
    table = bytes([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
    out = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x81, 0, 0) + table
    for frame in range(frames):
        # LZW with codes of 3 bits, each picture point after a clear code (4), then the end (5).
        codes = [code for _ in range(width * height) for code in (4, frame % 4)] + [5]
        bits = sum(code << 3 * i for i, code in enumerate(codes))
        data = bits.to_bytes(-(-3 * len(codes) // 8), "little")
        out += b"\x21\xf9\x04\0" + struct.pack("<H", delay) + b"\0\0"
        out += b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0)
        out += b"\x02" + bytes([len(data)]) + data + b"\0"
    return out + b"\x3b"


def mp4(path: Path, frames: Sequence[Pixels], fps: float = 5) -> Path:
    height, width = frames[0].shape[:2]
    fourcc = cv2.VideoWriter.fourcc(*"mp4v")
    writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, fourcc, fps, (width, height))
    for frame in frames:
        writer.write(frame)
    writer.release()
    return path


def turned_mp4(data: bytes, height: int) -> bytes:
    """The same MP4 with a note to turn it a quarter clockwise (ISO/IEC 14496-12, 8.3.2)."""
    at = data.index(b"tkhd") + 4 + 40  # version 0
    matrix = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, height << 16, 0, 1 << 30)
    return data[:at] + matrix + data[at + 36 :]
