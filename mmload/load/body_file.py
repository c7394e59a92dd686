"""The bodies of a run in one file that every worker maps: one copy in memory for all of them.

`pack` writes each distinct piece once, however many bodies share it, and gives what is left: plain,
picklable places in that file. `unpack` maps the file; the bases it gives are views of it.
"""

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mmload.load.payloads import Base, FileStrand, LinkStrand, Piece, Slot, Strand

Place = tuple[int, int]  # offset and length, in bytes


@dataclass(frozen=True, slots=True)
class PackedStrand:
    """A `FileStrand` whose stretches lie in the file."""

    fixed: tuple[Place, ...]
    slots: tuple[Slot, ...]
    variants: int
    length: int


@dataclass(frozen=True, slots=True)
class PackedBase:
    """A base whose text lies in the file; a whole number stands for a strand."""

    parts: tuple[Place | int, ...]
    variants: int
    length: int


@dataclass(frozen=True, slots=True)
class PackedBodies:
    """What workers need besides the file."""

    strands: tuple[PackedStrand | LinkStrand, ...]
    bases: tuple[PackedBase, ...]
    size_bytes: int  # of the file


def pack(bases: Sequence[Base], file: Path) -> PackedBodies:
    """Writes the bases' bytes into `file`."""
    with file.open("wb") as out:
        writer = _Writer(out)
        packed = tuple(
            PackedBase(tuple(map(writer.part, base.parts)), base.variants, base.length)
            for base in bases
        )
        return PackedBodies(tuple(writer.strands), packed, writer.size_bytes)


class _Writer:
    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._numbers: dict[int, int] = {}  # by id(): the bases keep their strands alive
        self._texts: dict[bytes, Place] = {}
        self.strands: list[PackedStrand | LinkStrand] = []
        self.size_bytes = 0

    def part(self, part: Piece | Strand) -> Place | int:
        if isinstance(part, bytes | memoryview):
            text = bytes(part)
            if text not in self._texts:
                self._texts[text] = self._write(text)
            return self._texts[text]
        if id(part) not in self._numbers:
            self._numbers[id(part)] = len(self.strands)
            self.strands.append(self._strand(part))
        return self._numbers[id(part)]

    def _strand(self, strand: Strand) -> PackedStrand | LinkStrand:
        if isinstance(strand, LinkStrand):
            return strand
        assert isinstance(strand, FileStrand)
        fixed = tuple(map(self._write, strand.fixed))
        return PackedStrand(fixed, strand.slots, strand.variants, strand.length)

    def _write(self, data: Piece) -> Place:
        place = (self.size_bytes, len(data))
        self._out.write(data)
        self.size_bytes += len(data)
        return place


def unpack(packed: PackedBodies, file: Path) -> tuple[Base, ...]:
    """Maps the file; the bases are views of it. Its pages are there at once: a page fault in the
    loop that sends would be lag. Once mapped, the file may be removed."""
    view = memoryview(b"")
    if packed.size_bytes:
        with file.open("rb") as handle:
            flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
            mapped = mmap.mmap(handle.fileno(), 0, flags=flags, prot=mmap.PROT_READ)
            view = memoryview(mapped)

    def piece(place: Place) -> memoryview:
        at, size = place
        return view[at : at + size]

    strands = [
        s
        if isinstance(s, LinkStrand)
        else FileStrand(tuple(map(piece, s.fixed)), s.slots, s.variants, s.length)
        for s in packed.strands
    ]
    return tuple(
        Base(
            parts=tuple(strands[p] if isinstance(p, int) else piece(p) for p in base.parts),
            variants=base.variants,
            length=base.length,
        )
        for base in packed.bases
    )
