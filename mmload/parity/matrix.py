"""What the gate tries: every case as data, by family, kind and what it varies.

In: families, and whether it should be quick. Out: `Case`s, those with the same settings together,
so that a processor is built once. A case costs nothing until its media are made.

`quick` is a subset that takes seconds: every kind of variation, on small media.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mmload.parity.media import Medium
from mmload.parity.variations import VARIATIONS, Kind
from mmload.processors.base import FAMILIES, Preset

KINDS: Final[tuple[Kind, ...]] = ("image", "video")


@dataclass(frozen=True)
class Case:
    """One call of a processor. `varies` is what it is there for, `quick` whether it is small."""

    family: str
    kind: Kind
    varies: str
    media: tuple[Medium, ...]
    preset: Preset = "hub"
    settings: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False  # the other kind does not have these settings
    sampling: float | None = None  # do_sample_frames, with clips of this many frames a second
    quick: bool = False

    @property
    def name(self) -> str:
        """The same for no other case."""
        media = " + ".join(medium.words for medium in self.media)
        words = [f"{self.family} {self.kind}: {media}"]
        words += [f"preset {self.preset}"] if self.preset != "hub" else []
        words += [f"{key}={value}" for key, value in self.settings.items()]
        words += [f"sampled at {self.sampling:g} frames/s"] if self.sampling is not None else []
        return ", ".join(words)

    @property
    def configuration(self) -> tuple[str, Preset, str]:
        """Equal for cases that one processor, of images and videos, can serve."""
        return self.family, self.preset, repr(sorted(self.settings.items()))

    @property
    def settings_of(self) -> dict[Kind, Mapping[str, Any]]:
        """What its processor is built with, by kind."""
        return {kind: {} if self.alone and kind != self.kind else self.settings for kind in KINDS}


def cases(families: Sequence[str] = FAMILIES, *, quick: bool = False) -> list[Case]:
    """The matrix, in the order in which it is run."""
    made = [case for family in families for kind in KINDS for case in _of(family, kind)]
    wanted = list({case.name: case for case in made if case.quick or not quick}.values())
    first: dict[Any, int] = {}
    for place, case in enumerate(wanted):
        first.setdefault(case.configuration, place)
    return sorted(wanted, key=lambda case: first[case.configuration])


def _of(family: str, kind: Kind) -> Iterator[Case]:
    for varies, cases_of in VARIATIONS.items():
        for given in cases_of(family, kind):
            yield Case(family, kind, varies, **given)
