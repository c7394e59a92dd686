"""MPEG-4 part 2 in an MP4 file: quantiser matrices put into its header, where they can be varied.

OpenCV's encoder writes no matrices (H.263 quantisation). This puts them in: the flag, 64 steps for
intra blocks and 64 for the others, in the configuration that the MP4's `esds` box holds, and makes
the boxes around it 128 bytes longer. Frames are not touched, so the file is as hard to decode as
before, and the steps are the same for any number of frames.

The two quantisations give back the number L of a block at quantiser q as

    H.263   (2L + 1) q        MPEG   2 L q W/16 (intra),  (2L + 1) q W/16 (others)

so W = 16 for the others changes nothing, and for intra blocks a W a little above 16, rising where
numbers are small, comes within 44 dB of what was encoded. (Changing each frame's own quantiser
instead was tried: it moves brightness, as the DC step depends on it, breaks frames, and gives few
variants of short clips.)

Goes in: the bytes of an MP4 file. Comes out: the longer file and its intra steps, or nothing at all
if anything in it is not as expected. Definitions: ISO/IEC 14496-2, 6.2.3 and 6.2.5 (bits),
7.4.4 (quantisation); 14496-1, 7.2.6 (descriptors); 14496-12 (boxes).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import Final, NamedTuple

from mmload.load.media.vary import Step

# In zigzag order; [0] is not used, as DC has its own step.
INTRA: Final = (8, *(17 + round(5 * k / 62) for k in range(63)))
OTHERS: Final = (16,) * 64
ADVANCED_SIMPLE: Final = 0xF5  # the profile (level 5) that allows matrices
BOX_PATH: Final = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"mp4v", b"esds")
# Bytes between a box's header and the boxes inside it, where there are any.
BEFORE_CHILDREN: Final = {b"stsd": 8, b"mp4v": 78}


class Box(NamedTuple):
    kind: bytes
    start: int  # of its header
    body: int
    end: int


@dataclass(frozen=True, slots=True)
class WithMatrices:
    """A file with matrices in its header, and the steps for intra blocks."""

    data: bytes
    steps: tuple[Step, ...]


def boxes(data: bytes | mmap, start: int, end: int) -> Iterator[Box]:
    """The MP4 boxes of a stretch of a file. Raises ValueError if one runs over the end."""
    while start < end:
        size, body = int.from_bytes(data[start : start + 4], "big"), start + 8
        if size == 1:
            size, body = int.from_bytes(data[body : body + 8], "big"), body + 8
        elif size == 0:
            size = end - start
        if start + size > end or body > start + size:
            raise ValueError(f"the box at byte {start} runs over the end")
        yield Box(data[start + 4 : start + 8], start, body, start + size)
        start += size


def with_matrices(data: bytes) -> WithMatrices | None:
    """The file with matrices; None if it is not what OpenCV's `mp4v` writer makes."""
    try:
        return _with_matrices(data)
    except ValueError:
        return None


def _with_matrices(data: bytes) -> WithMatrices:
    top = {box.kind: box for box in boxes(data, 0, len(data))}
    if b"mdat" not in top or b"moov" not in top or top[b"moov"].start < top[b"mdat"].start:
        raise ValueError("frames must come before their index: their offsets must not change")
    path = _esds_path(data)
    lengths, config, config_end = _descriptors(data, path[-1])
    layer = _Layer.read(data, config, config_end)
    quantiser = _first_quantiser(data, top[b"mdat"], layer.time_bits)

    header = _with_matrix_bits(data[layer.start : config_end], layer.quant_type - 8 * layer.start)
    grown = len(header) - (config_end - layer.start)
    changed = bytearray(data[: layer.start] + header + data[config_end:])
    for box in path:
        size = box.end - box.start + grown
        changed[box.start : box.start + 4] = size.to_bytes(4, "big")
    for at, length in lengths:
        changed[at : at + 4] = _length_bytes(length + grown)
    if data[config : config + 4] == b"\0\0\1\xb0":  # visual object sequence
        changed[config + 4] = ADVANCED_SIMPLE
    first = layer.quant_type + 2  # past the quantiser flag and the matrix flag
    unit = -(
        -8 // quantiser
    )  # the least that changes what a number of 1 gives: 2 q/16 is 1 or more
    steps = tuple(
        Step(position, first + 8 * position, INTRA[position], unit, scale=2 * quantiser / 16)
        for position in range(1, 64)
    )
    return WithMatrices(bytes(changed), steps)


def _esds_path(data: bytes) -> list[Box]:
    """The boxes from `moov` to `esds`, outermost first."""
    path, start, end = list[Box](), 0, len(data)
    for kind in BOX_PATH:
        found = [box for box in boxes(data, start, end) if box.kind == kind]
        if len(found) != 1 or found[0].body != found[0].start + 8:
            raise ValueError(f"not one plain {kind!r} box")
        path.append(found[0])
        start, end = found[0].body + BEFORE_CHILDREN.get(kind, 0), found[0].end
    return path


def _descriptors(data: bytes, esds: Box) -> tuple[list[tuple[int, int]], int, int]:
    """Where the three nested descriptors' lengths are, their values, and the innermost's bytes."""
    at, lengths = esds.body + 4, []
    for tag, fixed in ((3, 3), (4, 13), (5, 0)):
        coded = data[at + 1 : at + 5]
        # FFmpeg writes every length in four bytes; in that form it can grow in place.
        if at + 5 > esds.end or data[at] != tag or any(b < 128 for b in coded[:3]):
            raise ValueError(f"no descriptor {tag} with a four-byte length")
        length = sum((b & 127) << (7 * (3 - i)) for i, b in enumerate(coded))
        if tag == 3 and data[at + 7] & 0xE0:
            raise ValueError("an elementary stream with optional fields")
        lengths.append((at + 1, length))
        at += 5 + fixed
    end = at + lengths[-1][1]
    if end > esds.end:
        raise ValueError("a descriptor runs over the end of its box")
    return lengths, at, end


def _length_bytes(length: int) -> bytes:
    return bytes((length >> (7 * (3 - i)) & 127) | (128 if i < 3 else 0) for i in range(4))


class _Bits:
    """Reads a bit string from the front; ValueError past its end."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self.value = int.from_bytes(data[start:end], "big")
        self.left = 8 * (end - start)
        self.end = 8 * end

    @property
    def at(self) -> int:
        """Offset in the file, in bits."""
        return self.end - self.left

    def take(self, count: int) -> int:
        self.left -= count
        if self.left < 0:
            raise ValueError("a header ends early")
        return self.value >> self.left & ((1 << count) - 1)

    def expect(self, wanted: int, what: str, count: int = 1) -> None:
        found = self.take(count)
        if found != wanted:
            raise ValueError(f"{what} is {found}")


@dataclass(frozen=True, slots=True)
class _Layer:
    """The video object layer's header, as far as the matrices."""

    start: int  # of its start code, in bytes
    quant_type: int  # offset in the file, in bits
    time_bits: int  # width of a frame's time in its header

    @classmethod
    def read(cls, data: bytes, start: int, end: int) -> "_Layer":
        at = data.find(b"\0\0\1", start, end)
        while at >= 0 and not 0x20 <= data[at + 3] <= 0x2F:
            at = data.find(b"\0\0\1", at + 3, end)
        if at < 0:
            raise ValueError("no video object layer")
        bits = _Bits(data, at + 4, end)
        bits.take(1 + 8)  # random access, object type
        version = 1
        if bits.take(1):
            version = bits.take(4)
            bits.take(3)
        if bits.take(4) == 15:  # pixel aspect ratio given
            bits.take(16)
        if bits.take(1):  # control parameters
            bits.take(3)
            bits.expect(0, "buffer parameters")
        bits.expect(0, "shape", 2)  # rectangular
        bits.expect(1, "marker")
        time_bits = max(1, (bits.take(16) - 1).bit_length())
        bits.expect(1, "marker")
        if bits.take(1):  # fixed frame rate
            bits.take(time_bits)
        for _ in ("width", "height"):
            bits.expect(1, "marker")
            bits.take(13)
        bits.expect(1, "marker")
        bits.expect(0, "interlaced")
        bits.take(1)  # overlapped motion compensation
        bits.expect(0, "sprite", 1 if version == 1 else 2)
        bits.expect(0, "not 8 bits")
        quant_type = bits.at
        bits.expect(0, "quant type")
        return cls(at, quant_type, time_bits)


def _with_matrix_bits(header: bytes, quant_type: int) -> bytes:
    """A layer's header (with what follows it) with both matrices, its stuffing made anew."""
    end = header.find(b"\0\0\1", 4)
    end = len(header) if end < 0 else end
    bits = f"{int.from_bytes(header[:end], 'big'):0{8 * end}b}"
    bits = bits[: bits.rindex("0")]  # stuffing is a 0 and then 1 to the next byte
    matrices = "".join("1" + "".join(f"{step:08b}" for step in m) for m in (INTRA, OTHERS))
    bits = bits[:quant_type] + "1" + matrices + bits[quant_type + 1 :] + "0"
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big") + header[end:]


def _first_quantiser(data: bytes, frames: Box, time_bits: int) -> int:
    """The quantiser (1..31) of the first frame, which must be an intra frame."""
    at = data.find(b"\0\0\1\xb6", frames.body, frames.end)
    if at < 0:
        raise ValueError("no frame")
    bits = _Bits(data, at + 4, min(at + 36, frames.end))
    bits.expect(0, "coding type", 2)  # intra
    while bits.take(1):  # whole seconds
        pass
    bits.expect(1, "marker")
    bits.take(time_bits)
    bits.expect(1, "marker")
    bits.expect(1, "coded")
    bits.take(3)  # threshold of the DC code
    quantiser = bits.take(5)
    if quantiser == 0:
        raise ValueError("quantiser 0")
    return quantiser
