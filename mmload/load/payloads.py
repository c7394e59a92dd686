"""Request bodies as ready bytes, made before the clock starts.

A *strand* is one medium as it stands in a body: stretches of base64 with *slots* between them. A
*base* is a whole body: text and strands. A request is a base and a variant number; its bytes are
the base's with one of the prepared options in each slot. So a million distinct 15-frame bodies cost
the memory of a few strands and 28 bytes each, bases that show one medium share its strand, and
nothing is encoded, hashed or copied in the loop that sends. `Plan` says which request is which.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from mmload.load.media import Media

Piece = bytes | memoryview

NUMBER_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Slot:
    """A stretch of a body that takes one of several contents of equal length."""

    options: tuple[bytes, ...]


class Strand(Protocol):
    """One medium in a body, in pieces that are not copied. All variants are of one length."""

    @property
    def variants(self) -> int: ...

    @property
    def length(self) -> int: ...

    def add(self, out: list[Piece], variant: int) -> None:
        """Appends the pieces of a variant. Cheap: no large bytes are made."""


@dataclass(frozen=True, slots=True)
class FileStrand:
    """A file: `fixed[0] slot[0] fixed[1] slot[1] ... fixed[n]`. The slots are the digits of the
    variant number in mixed radix."""

    fixed: tuple[Piece, ...]
    slots: tuple[Slot, ...]
    variants: int
    length: int

    def add(self, out: list[Piece], variant: int) -> None:
        out.append(self.fixed[0])
        for at, slot in enumerate(self.slots, 1):
            variant, digit = divmod(variant, len(slot.options))
            out.append(slot.options[digit])
            out.append(self.fixed[at])


@dataclass(frozen=True, slots=True)
class LinkStrand:
    """A URL with the variant number in it, from which the server fetches that variant."""

    before: bytes
    after: bytes
    variants: int

    @property
    def length(self) -> int:
        return len(self.before) + NUMBER_DIGITS + len(self.after)

    def add(self, out: list[Piece], variant: int) -> None:
        out.append(b"%s%0*d%s" % (self.before, NUMBER_DIGITS, variant, self.after))


def file_strand(medium: Media, *, raw: bool = False) -> FileStrand:
    """A file's base64 with its sites as slots; `raw`: its own bytes (multipart bodies)."""
    encode = (lambda data: data) if raw else base64.b64encode
    fixed: list[bytes] = []
    slots: list[Slot] = []
    at = 0
    for site in medium.sites:
        fixed.append(encode(medium.data[at : site.offset]))
        slots.append(Slot(tuple(encode(option) for option in site.options)))
        at = site.offset + len(site.options[0])
    fixed.append(encode(medium.data[at:]))
    length = sum(map(len, fixed)) + sum(len(slot.options[0]) for slot in slots)
    return FileStrand(tuple(fixed), tuple(slots), medium.variants, length)


@dataclass(frozen=True, slots=True)
class Base:
    """One body as text and strands; every strand takes the same variant number."""

    parts: tuple[Piece | Strand, ...]
    variants: int
    length: int  # bytes, the same for every variant
    media: tuple[dict[str, Any], ...] = ()  # facts of each medium, for the manifest
    expected: tuple[str, ...] = ()  # answers that would be right
    metric: str = ""  # how they are compared

    def pieces(self, variant: int) -> list[Piece]:
        """The body of a variant, in pieces that are not copied. Cheap: no large bytes are made."""
        out: list[Piece] = []
        for part in self.parts:
            if isinstance(part, bytes | memoryview):
                out.append(part)
            else:
                part.add(out, variant)
        return out

    def bytes(self, variant: int) -> bytes:
        """The body of a variant in one piece, for checks."""
        return b"".join(self.pieces(variant))


def make_base(
    body: bytes,
    media: Sequence[tuple[str, Strand]],
    *,
    facts: Sequence[dict[str, Any]] = (),
    expected: Sequence[str] = (),
    metric: str = "",
) -> Base:
    """Cuts a body in which each medium's token stands once, in this order, into a `Base`."""
    parts: list[Piece | Strand] = []
    rest = body
    for token, strand in media:
        before, found, rest = rest.partition(token.encode())
        if not found:
            raise ValueError(f"the body has no place for {token}")
        parts += [before, strand]
    parts.append(rest)
    strands = [strand for _, strand in media]
    tokens = sum(len(token.encode()) for token, _ in media)
    return Base(
        parts=tuple(parts),
        variants=min((strand.variants for strand in strands), default=1),
        length=len(body) - tokens + sum(strand.length for strand in strands),
        media=tuple(facts),
        expected=tuple(expected),
        metric=metric,
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """Which request sends what: arrays over the schedule. A payload is a (base, variant) pair."""

    media_class: NDArray[np.int32]  # index into the class names
    base: NDArray[np.int32]
    variant: NDArray[np.int64]
    payload: NDArray[np.int64]  # number of the distinct payload: equal numbers are equal bytes
    shown: NDArray[np.int64]  # number of the distinct media; -1: text alone

    def __len__(self) -> int:
        return len(self.base)


@dataclass(frozen=True, slots=True)
class PayloadSet:
    """The bodies of a run: bases, the plan over them, and what they are."""

    bases: tuple[Base, ...]
    plan: Plan

    def pieces(self, i: int) -> list[Piece]:
        base: Base = self.bases[self.plan.base[i]]
        return base.pieces(int(self.plan.variant[i]))

    def length(self, i: int) -> int:
        base: Base = self.bases[self.plan.base[i]]
        return base.length

    def held_bytes(self) -> int:
        """What the bases hold in memory, and every worker maps: each strand once."""
        texts = 0
        strands: dict[int, int] = {}
        for base in self.bases:
            for part in base.parts:
                if isinstance(part, bytes | memoryview):
                    texts += len(part)
                else:
                    strands[id(part)] = part.length
        return texts + sum(strands.values())

    def manifest(self) -> Iterator[dict[str, Any]]:
        """One line a base. A variant's bytes follow from the base and its number."""
        head: tuple[Any, ...] = ()
        hashed = hashlib.sha256()
        for b, base in enumerate(self.bases):
            # Neighbours often differ in their prompt alone, which is their last part.
            same = tuple(part if isinstance(part, bytes) else id(part) for part in base.parts[:-1])
            if same != head:
                head, hashed = same, hashlib.sha256()
                for piece in Base(base.parts[:-1], base.variants, 0).pieces(0):
                    hashed.update(piece)
            whole = hashed.copy()
            for piece in Base(base.parts[-1:], base.variants, 0).pieces(0):
                whole.update(piece)
            yield {
                "base": b,
                "body_bytes": base.length,
                "variants": base.variants,
                "body_sha256": whole.hexdigest(),
                "media": list(base.media),
            }

    @property
    def expects(self) -> bool:
        """Whether any body has answers that would be right."""
        return any(base.expected for base in self.bases)

    def expected(self) -> Iterator[dict[str, Any]]:
        """One line a distinct payload for which an answer is expected."""
        answered = [bool(base.expected) for base in self.bases]
        measured = self.plan.payload >= 0
        numbers, first = np.unique(self.plan.payload[measured], return_index=True)
        bases = self.plan.base[measured][first]
        for number, b in zip(numbers.tolist(), bases.tolist(), strict=True):
            if answered[b]:
                base = self.bases[b]
                yield {
                    "payload": number,
                    "expected": list(base.expected),
                    "metric": base.metric,
                }
