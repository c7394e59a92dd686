"""What a run may show and ask, before it becomes bodies: media sets, scripts, and classes of both.

A *media set* is what one request shows; a *script* what is asked, turn by turn. A *class* is what
reports tell apart: its requests take its sets and scripts in turn. Equal sets and scripts are one,
however many classes have them, so that bodies share bytes and a variant is never sent twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mmload.load.media import Media, MediaKind
from mmload.scenario_types import Form, MediaClass

FOLLOW_UPS: Final = (
    "What else is there?",
    "Which of it matters most?",
    "What is it made of?",
    "What could happen next?",
)


@dataclass(frozen=True, slots=True)
class Link:
    """A medium that the user names by its URL: sent as it is, never looked at."""

    kind: MediaKind
    url: str


@dataclass(frozen=True, slots=True)
class MediaSet:
    """What one request shows. `joined`: JPEG files that together are one video."""

    media: tuple[Media | Link, ...] = ()
    joined: bool = False

    @property
    def variants(self) -> int:
        """How many distinct sets this one can be: all of its media change together."""
        numbers = [1 if isinstance(m, Link) else m.variants for m in self.media]
        return min(numbers, default=1)

    @property
    def key(self) -> tuple[Any, ...]:
        names = tuple(m.url if isinstance(m, Link) else m.sha256 for m in self.media)
        return (self.joined, self.variants > 1, *names)

    @property
    def frames(self) -> int:
        """Pictures in all; 0 if nobody knows."""
        counts = [(m.kind == "image") if isinstance(m, Link) else m.frames for m in self.media]
        return sum(counts) if all(counts) else 0

    @property
    def kind(self) -> str:
        if not self.media:
            return "text"
        return "video" if self.joined else self.media[0].kind


@dataclass(frozen=True, slots=True)
class Script:
    """What is asked, one prompt a turn, and which answers would be right."""

    prompts: tuple[str, ...]
    max_tokens: int
    expected: tuple[str, ...] = ()
    metric: str = ""


@dataclass(frozen=True, slots=True)
class ClassPool:
    """A class of requests. `sets` and `scripts` are numbers into the pool's."""

    name: str
    weight: float
    sets: tuple[int, ...]
    scripts: tuple[int, ...]
    form: Form | None = None  # how several frames are sent
    tied: bool = False  # the n-th script belongs to the n-th set (a dataset)


@dataclass(frozen=True)
class MediaPool:
    """Everything that a run may send."""

    classes: tuple[ClassPool, ...]
    sets: tuple[MediaSet, ...]
    scripts: tuple[Script, ...]
    reuse: float | None  # the declared share of repeats; None: files come round as they are
    file_hashes: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    mixed: tuple[int, ...] = ()  # classes that requests are dealt to by weight
    lines: NDArray[np.int32] | None = None  # instead: the class of each line of a dataset, in order
    trace_classes: tuple[int, ...] = ()  # of the trace's own classes
    cameras: tuple[tuple[int, ...], ...] = ()  # the sets that each camera films, in order
    camera_class: tuple[int, ...] = ()

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(cls.name for cls in self.classes)

    @property
    def variants(self) -> list[int]:
        return [s.variants for s in self.sets]

    def media(self) -> list[Media]:
        """Every distinct file, in a fixed order."""
        found = {m.sha256: m for s in self.sets for m in s.media if isinstance(m, Media)}
        return list(found.values())


class PoolBuilder:
    """Collects sets, scripts and classes; equal ones become one."""

    def __init__(self) -> None:
        self.sets: list[MediaSet] = []
        self.scripts: list[Script] = []
        self.classes: list[ClassPool] = []
        self.notes: dict[str, None] = {}
        self.hashes: set[str] = set()
        self._set_numbers: dict[tuple[Any, ...], int] = {}
        self._script_numbers: dict[Script, int] = {}

    def add_set(self, media_set: MediaSet) -> int:
        number = self._set_numbers.setdefault(media_set.key, len(self.sets))
        if number == len(self.sets):
            self.sets.append(media_set)
        return number

    def add_script(self, script: Script) -> int:
        number = self._script_numbers.setdefault(script, len(self.scripts))
        if number == len(self.scripts):
            self.scripts.append(script)
        return number

    def add_class(
        self,
        name: str,
        weight: float,
        sets: Sequence[int],
        scripts: Sequence[int],
        form: Form | None = None,
        *,
        tied: bool = False,
    ) -> int:
        """The new class's number; a name that is taken gets a number behind it."""
        taken = {cls.name for cls in self.classes}
        unique, k = name, 1
        while unique in taken:
            k += 1
            unique = f"{name} ({k})"
        self.classes.append(ClassPool(unique, weight, tuple(sets), tuple(scripts), form, tied))
        return len(self.classes) - 1

    def add_file(self, medium: Media) -> None:
        """A user's file: what is sent of it counts in the scenario's digest."""
        self.hashes.add(medium.sha256)

    def build(self, **rest: Any) -> MediaPool:
        return MediaPool(
            classes=tuple(self.classes),
            sets=tuple(self.sets),
            scripts=tuple(self.scripts),
            notes=list(self.notes),
            **rest,
        )


def turn_prompts(prompts: Sequence[str], first: int, turns: int) -> tuple[str, ...]:
    """A conversation's prompts: from `first` on through the list; one alone is followed up."""
    if len(prompts) > 1:
        return tuple(prompts[(first + j) % len(prompts)] for j in range(turns))
    later = (FOLLOW_UPS[j % len(FOLLOW_UPS)] for j in range(turns - 1))
    return (prompts[first], *later)


def class_scripts(
    builder: PoolBuilder, cls: MediaClass, prompts: Sequence[str], turns: int
) -> tuple[int, ...]:
    """The scripts of a class: its own prompt, or each of `prompts`."""
    asked = prompts if cls.prompt is None else (cls.prompt,)
    assert cls.max_tokens is not None
    return tuple(
        builder.add_script(Script(turn_prompts(asked, first, turns), cls.max_tokens))
        for first in range(len(asked))
    )
