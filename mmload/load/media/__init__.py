"""Media as a server receives it: encoded bytes, and the places where they may be varied.

`Media` is what every source in this folder gives: synthetic images and videos, files as their own
bytes, frames extracted from clips. A `Site` is a stretch of the file whose bytes can be exchanged
for others of the same length such that the file stays valid, costs the same to decode, and decodes
to other pixels: steps of the quantiser table of a JPEG, or of an MPEG-4 clip. That makes millions
of distinct images (to every content hash, of bytes or of pixels) out of one, without a copy.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

MediaKind = Literal["image", "video"]


@dataclass(frozen=True, slots=True)
class Site:
    """A stretch of bytes with interchangeable contents; `options[0]` is the original.

    `offset` and the options' common length are multiples of 3, so that a site covers whole groups
    of base64.
    """

    offset: int
    options: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Media:
    """One encoded image or video file. `width` and `height` in pixels as displayed."""

    kind: MediaKind
    mime: str  # "image/jpeg", "video/mp4", ...
    data: bytes
    width: int
    height: int
    frames: int  # 1 for an image
    source: str  # "synthetic", or the file's name
    sha256: str  # of `data`
    sites: tuple[Site, ...] = field(default=(), repr=False)

    @property
    def variants(self) -> int:
        """How many distinct files this one can be (1: it cannot be varied)."""
        return math.prod(len(site.options) for site in self.sites)

    def choose(self, variant: int) -> tuple[int, ...]:
        """Option of each site for a variant number: its digits in mixed radix, first site lowest.

        Raises ValueError if `variant` is not in `range(self.variants)`.
        """
        if not 0 <= variant < self.variants:
            raise ValueError(f"variant {variant} is not in 0..{self.variants - 1}")
        digits = []
        for site in self.sites:
            variant, digit = divmod(variant, len(site.options))
            digits.append(digit)
        return tuple(digits)

    def variant(self, number: int) -> bytes:
        """The whole file of a variant (for checks; requests are written in pieces instead)."""
        data = bytearray(self.data)
        for site, digit in zip(self.sites, self.choose(number), strict=True):
            option = site.options[digit]
            data[site.offset : site.offset + len(option)] = option
        return bytes(data)
