"""Request bodies as ready bytes, made before the clock starts.

A *base* is a whole request body cut into fixed stretches and *slots*. A request is a base and a
variant number; its bytes are the base's stretches with one of the prepared options in each slot, so
a million distinct 15-frame bodies cost the memory of a few bases and 24 bytes each, and nothing is
encoded, hashed or copied in the loop that sends. `Plan` says which request is which.

Reuse is exact: of n requests of a class, round(R * n) repeat an earlier one of that class.
"""

import base64
import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmload.errors import UsageError
from mmload.load.media import Media
from mmload.load.schedule import exact_shares, seeded, shuffled

Piece = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Slot:
    """A stretch of a body that takes one of several contents of equal length."""

    options: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Base:
    """One body as pieces: `fixed[0] slot[0] fixed[1] slot[1] ... fixed[n]`.

    Slots of one medium are the digits of the variant number in mixed radix; every medium in the
    body takes the same number, `groups` being how many slots each medium has.
    """

    fixed: tuple[Piece, ...]
    slots: tuple[Slot, ...]
    groups: tuple[int, ...]
    variants: int
    length: int  # bytes, the same for every variant
    media: tuple[dict[str, Any], ...]  # facts of each medium, for the manifest

    def pieces(self, variant: int) -> list[Piece]:
        """The body of a variant, in pieces that are not copied. Cheap: no bytes are made."""
        out: list[Piece] = [self.fixed[0]]
        at = 0
        for group in self.groups:
            rest = variant
            for slot in self.slots[at : at + group]:
                rest, digit = divmod(rest, len(slot.options))
                out.append(slot.options[digit])
                at += 1
                out.append(self.fixed[at])
        return out

    def bytes(self, variant: int) -> bytes:
        """The body of a variant in one piece, for checks."""
        return b"".join(self.pieces(variant))


def make_base(body: bytes, media: Sequence[tuple[str, Media]], *, raw: bool = False) -> Base:
    """Cuts a body in which each medium's token stands once into a `Base`.

    `raw` puts the files' own bytes in (multipart bodies), else their base64.
    """
    encode = (lambda data: data) if raw else base64.b64encode
    fixed: list[bytes] = []
    slots: list[Slot] = []
    groups: list[int] = []
    pending = b""
    rest = body
    for token, medium in media:
        before, found, rest = rest.partition(token.encode())
        if not found:
            raise ValueError(f"the body has no place for {token}")
        pending += before
        at = 0
        for site in medium.sites:
            size = len(site.options[0])
            fixed.append(pending + encode(medium.data[at : site.offset]))
            slots.append(Slot(tuple(encode(option) for option in site.options)))
            pending, at = b"", site.offset + size
        pending += encode(medium.data[at:])
        groups.append(len(medium.sites))
    fixed.append(pending + rest)
    length = sum(map(len, fixed)) + sum(len(slot.options[0]) for slot in slots)
    varied = [medium.variants for _, medium in media]
    return Base(
        fixed=tuple(fixed),
        slots=tuple(slots),
        groups=tuple(groups),
        variants=min(varied) if varied else 1,
        length=length,
        media=tuple(_facts(medium) for _, medium in media),
    )


def _facts(medium: Media) -> dict[str, Any]:
    return {
        "kind": medium.kind,
        "mime": medium.mime,
        "width": medium.width,
        "height": medium.height,
        "frames": medium.frames,
        "bytes": len(medium.data),
        "source": medium.source,
        "sha256": medium.sha256,
    }


@dataclass(frozen=True, slots=True)
class Plan:
    """Which request sends what: arrays over the schedule. A payload is a (base, variant) pair."""

    media_class: NDArray[np.int32]  # index into the scenario's classes
    base: NDArray[np.int32]
    variant: NDArray[np.int64]
    payload: NDArray[np.int64]  # number of the distinct payload: equal numbers are equal bytes

    def __len__(self) -> int:
        return len(self.base)

    def distinct(self) -> int:
        return len(np.unique(self.payload))


def assign_classes(weights: Sequence[float], n: int, seed: int) -> NDArray[np.int32]:
    """A class for each of `n` requests: exact shares of the weights, in seeded random order."""
    shares = exact_shares(weights, n)
    in_order = [c for c, share in enumerate(shares) for _ in range(share)]
    if len(weights) > 1:
        in_order = shuffled(in_order, seeded(seed, "mix"))
    return np.array(in_order, np.int32)


def make_plan(
    classes: NDArray[np.int32],
    bases_of_class: Sequence[Sequence[int]],
    variants: Sequence[int],
    *,
    reuse: float | None,
    seed: int,
    without_media: Collection[int] = (),
) -> Plan:
    """Gives each request its payload.

    Args:
        classes: class of each request.
        bases_of_class: the bases (global numbers) that each class may use.
        variants: how many distinct bodies each base can be.
        reuse: share of requests that repeat an earlier body of their class, exact. None: bases that
            cannot be varied come round again and again (user files as they are).
        seed: of the media; independent of arrivals and mix.
        without_media: classes of text alone, whose one body may always repeat.

    Raises UsageError if there are not enough distinct bodies for the asked reuse.
    """
    n = len(classes)
    base = np.zeros(n, np.int32)
    variant = np.zeros(n, np.int64)
    payload = np.zeros(n, np.int64)
    distinct: dict[tuple[int, int], int] = {}
    rng = seeded(seed, "media")
    for c, own in enumerate(bases_of_class):
        members = np.flatnonzero(classes == c)
        if not len(members):
            continue
        endless = reuse is None or c in without_media
        repeats: set[int] = set()
        if reuse and not endless:
            k = min(round(reuse * len(members)), len(members) - 1)
            repeats = set(shuffled(range(1, len(members)), rng)[:k])
        fresh: list[tuple[int, int]] = []
        bodies = _distinct_bodies(own, variants)
        for place, request in enumerate(members):
            if place in repeats:
                chosen = fresh[int(rng.random() * len(fresh))]
            else:
                following = next(bodies, None)
                if following is None and endless:
                    bodies = _distinct_bodies(own, variants)
                    following = next(bodies)
                if following is None:
                    raise UsageError(
                        f"--reuse {reuse:g}: {len(members) - len(repeats)} distinct bodies are"
                        f" needed, {len(fresh)} can be made of {len(own)} media",
                        "add media, allow repeats (a higher --reuse), or shorten the run",
                    )
                chosen = following
                fresh.append(chosen)
            base[request], variant[request] = chosen
            payload[request] = distinct.setdefault(chosen, len(distinct))
    return Plan(classes, base, variant, payload)


def with_warm_up(
    plan: Plan, bases_of_class: Sequence[Sequence[int]], variants: Sequence[int], count: int
) -> Plan:
    """The plan and `count` requests behind it that go through the classes in turn.

    Their bodies are taken from the far end of what a base can be, so that no measured request finds
    its medium in a cache.
    """
    k = np.arange(count)
    classes = (k % len(bases_of_class)).astype(np.int32)
    base = np.array([bases_of_class[c][-1] for c in classes.tolist()], np.int32)
    most = np.array(variants, np.int64)[base] if count else np.zeros(0, np.int64)
    return Plan(
        np.concatenate([plan.media_class, classes]),
        np.concatenate([plan.base, base]),
        np.concatenate([plan.variant, np.maximum(most - 1 - k, 0)]),
        np.concatenate([plan.payload, -1 - k]),
    )


def _distinct_bodies(own: Sequence[int], variants: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Every (base, variant) once: the bases in turn, then their next variants."""
    lap = 0
    while alive := [b for b in own if lap < variants[b]]:
        yield from ((b, lap) for b in alive)
        lap += 1


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

    def manifest(self) -> list[dict[str, Any]]:
        """One line a base. A variant's bytes follow from the base and its number."""
        return [
            {
                "base": b,
                "body_bytes": base.length,
                "variants": base.variants,
                "body_sha256": hashlib.sha256(base.bytes(0)).hexdigest(),
                "media": list(base.media),
            }
            for b, base in enumerate(self.bases)
        ]
