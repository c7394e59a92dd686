"""Traces: arrivals of real traffic, replayed at exactly their times, from the first.

A line of the file is {"timestamp": T} and, optionally, "frames", "size", "as", "media" (together a
class of its own; a line without them takes the scenario's classes by their shares), "prompt" and
"max_tokens". T is a number of seconds, or an ISO 8601 instant; "timestamp_ms" instead is a number
of milliseconds. Times are exact to the nanosecond and must not fall. Paths are relative to the
file.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from mmload.clock import NS_PER_MS, NS_PER_S
from mmload.errors import UsageError
from mmload.load.prepare.lines import file_hash, read_lines
from mmload.scenario_types import Form, FrameCount, MediaClass, Model, Prompt, Size, Tokens

BY_THE_MIX: Final = -1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _seconds(value: Any) -> Any:
    """Nanoseconds of a number of seconds or an ISO 8601 instant (UTC where it names no zone)."""
    if isinstance(value, str):
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("seconds as a number, or an ISO 8601 instant") from None
        if instant.tzinfo is None:
            instant = instant.replace(tzinfo=UTC)
        since = instant - _EPOCH
        return (since.days * 86_400 + since.seconds) * NS_PER_S + since.microseconds * 1000
    return _scaled(value, NS_PER_S)


def _milliseconds(value: Any) -> Any:
    return _scaled(value, NS_PER_MS)


def _scaled(value: Any, unit_ns: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError("a number is needed")
    at_ns = round(value * unit_ns) if -(10**13) < value < 10**13 else None
    if at_ns is None or abs(at_ns) >= 2**62:
        raise ValueError("an instant within 146 years of 0 is needed")
    return at_ns


class TraceLine(Model):
    """One line, times in nanoseconds."""

    timestamp: Annotated[int, BeforeValidator(_seconds)] | None = None
    timestamp_ms: Annotated[int, BeforeValidator(_milliseconds)] | None = None
    frames: FrameCount | None = None
    size: Size | None = None
    as_: Form | None = Field(default=None, alias="as")
    media: str | None = None
    prompt: Prompt | None = None
    max_tokens: Tokens | None = None

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if (self.timestamp is None) == (self.timestamp_ms is None):
            raise ValueError("timestamp (seconds or ISO 8601) or timestamp_ms: give one of them")
        return self

    @property
    def at_ns(self) -> int:
        at_ns = self.timestamp if self.timestamp is not None else self.timestamp_ms
        assert at_ns is not None
        return at_ns


@dataclass(frozen=True)
class Trace:
    """The lines as arrays: `classes[media_class[i]]` is line i's class, or it has none."""

    times_ns: NDArray[np.int64]  # from the first
    classes: tuple[MediaClass, ...]
    media_class: NDArray[np.int32]  # BY_THE_MIX: one of the scenario's
    texts: tuple[tuple[str | None, int | None], ...]  # prompt and max_tokens, where given
    text: NDArray[np.int32]
    hash: str

    def cut(self, n: int) -> "Trace":
        """The first `n` lines."""
        return Trace(
            self.times_ns[:n],
            self.classes,
            self.media_class[:n],
            self.texts,
            self.text[:n],
            self.hash,
        )


def read_trace(path: Path) -> Trace:
    """Raises UsageError that names the file and line."""
    times_ns: list[int] = []
    classes: dict[MediaClass, int] = {}
    media_class: list[int] = []
    texts: dict[tuple[str | None, int | None], int] = {}
    text: list[int] = []
    for where, line in read_lines(path, "--trace", TraceLine):
        if times_ns and line.at_ns < times_ns[-1]:
            raise UsageError(
                f"{where}: timestamp: earlier than that of the line before",
                "sort the file by timestamp",
            )
        times_ns.append(line.at_ns)
        shown = {"frames", "size", "as_", "media"} & line.model_fields_set
        if shown:
            cls = MediaClass.model_construct(
                frames=line.frames, size=line.size, as_=line.as_, media=_beside(path, line.media)
            )
            media_class.append(classes.setdefault(cls, len(classes)))
        else:
            media_class.append(BY_THE_MIX)
        text.append(texts.setdefault((line.prompt, line.max_tokens), len(texts)))
    return Trace(
        np.array(times_ns, np.int64) - times_ns[0],
        tuple(classes),
        np.array(media_class, np.int32),
        tuple(texts),
        np.array(text, np.int32),
        file_hash(path, "--trace"),
    )


def _beside(path: Path, named: str | None) -> str | None:
    return None if named is None else str(path.parent / named)
