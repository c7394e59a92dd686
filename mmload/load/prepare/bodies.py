"""From what was chosen to ready bodies: one base for each pair of a media set and a turn's prompt.

A set's strands are made once, whatever is asked about it. In a conversation, turn j's body holds
the media, the earlier prompts, and scripted answers of a fixed length: arrivals never wait for
answers, so what the server really said cannot be in it.
"""

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any, Final

import numpy as np

from mmload.errors import UsageError
from mmload.load.media import Media
from mmload.load.media.serve import MediaServer
from mmload.load.payloads import Base, PayloadSet, Plan, Strand, file_strand, make_base
from mmload.load.prepare.plan import Choice, choose
from mmload.load.prepare.pool import Link, MediaPool, MediaSet, Script
from mmload.load.prepare.times import Numbers, Schedule
from mmload.scenario import Scenario
from mmload.wire import APIS
from mmload.wire.base import Ask, MediaSlot, Turn

ANSWER_WORDS: Final = (
    "It shows a scene with several things in it, some of which move while others stay where they"
    " are, in front of a background that is lit from one side."
).split()


def payloads(
    scenario: Scenario,
    pool: MediaPool,
    model: str,
    schedule: Schedule,
    server: MediaServer | None = None,
) -> PayloadSet:
    """Bodies and plan for the measured requests and the warm-up ones behind them.

    `server` serves the media where they are sent as URLs. Raises UsageError if too few distinct
    bodies can be made, or the API cannot ask this.
    """
    choice, scripts = choose(scenario, pool, schedule)
    of_body = _joint(_joint(choice.shown, choice.script), choice.turn)
    _, example, base = np.unique(of_body, return_index=True, return_inverse=True)
    maker = _BodyMaker(scenario, model, server)
    distinct = choice.at(example)
    bases = tuple(
        maker.base(shown, pool.sets[shown], scripts[script], turn)
        for shown, script, turn in zip(
            distinct.shown.tolist(), distinct.script.tolist(), distinct.turn.tolist(), strict=True
        )
    )
    return PayloadSet(bases, _plan(pool, choice, base, len(schedule)))


def _plan(pool: MediaPool, choice: Choice, base: Numbers, measured: int) -> Plan:
    bare = np.array([not s.media for s in pool.sets])
    shown = _numbered(_joint(choice.shown, choice.variant))
    payload = _numbered(_joint(base, choice.variant))
    # Warm-up requests are behind the measured: their payloads have numbers of their own.
    payload[measured:] = -1 - np.arange(len(payload) - measured)
    return Plan(
        media_class=choice.media_class,
        base=base.astype(np.int32),
        variant=choice.variant,
        payload=payload,
        shown=np.where(bare[choice.shown], -1, shown),
    )


def _joint(high: Numbers, low: Numbers) -> Numbers:
    """One number for each pair, in the order of the pairs. Variants stay far below 2**31."""
    joint: Numbers = high * (int(low.max(initial=0)) + 1) + low
    return joint


def _numbered(keys: Numbers) -> Numbers:
    """Equal keys get equal numbers, from 0 in the order in which they first come."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbers: Numbers = rank[inverse]
    return numbers


class _BodyMaker:
    """Makes bases for one API, keeping the strands of the media that it has met."""

    def __init__(self, scenario: Scenario, model: str, server: MediaServer | None) -> None:
        self._scenario = scenario
        self._api = APIS[scenario.api]
        self._model = model
        self._server = server
        self._strands: dict[int, tuple[tuple[str, Strand], ...]] = {}
        if scenario.turns > 1 and not self._api.conversations:
            raise UsageError(
                f"--turns: --api {scenario.api} has no conversations",
                "leave out --turns, or choose another --api",
            )
        if scenario.detail is not None and not self._api.details:
            raise UsageError(
                f"--detail: --api {scenario.api} has no such thing",
                "leave out --detail, or choose --api chat or responses",
            )
        if server is not None and self._api.raw:
            raise UsageError(
                f"--media-url: --api {scenario.api} takes files, not URLs",
                "leave out --media-url, or choose another --api",
            )

    def base(self, number: int, shown: MediaSet, script: Script, turn: int) -> Base:
        """The body of one turn of a script that is asked about a media set."""
        slots = self._slots(shown)
        self._api.check([slot.kind for slot in slots])
        answer = _answer(script.max_tokens)
        first: tuple[MediaSlot, ...] = slots if turn == 0 else ()
        ask = Ask(
            model=self._model,
            prompt=script.prompts[turn],
            media=first,
            max_tokens=script.max_tokens,
            history=tuple(Turn(script.prompts[j], answer, () if j else slots) for j in range(turn)),
            extra=self._scenario.extra,
        )
        if number not in self._strands:
            self._strands[number] = tuple(self._named(shown))
        return make_base(
            self._api.body(ask),
            self._strands[number],
            facts=[facts(medium) for medium in shown.media],
            expected=script.expected,
            metric=script.metric,
        )

    def _slots(self, shown: MediaSet) -> tuple[MediaSlot, ...]:
        detail = self._scenario.detail
        if shown.joined:
            tokens = ",".join(_token(k) for k in range(len(shown.media)))
            return (MediaSlot("video", "video/jpeg", tokens),)
        slots = []
        for k, medium in enumerate(shown.media):
            if isinstance(medium, Link):
                if self._api.raw:
                    raise UsageError(
                        f"{medium.url}: --api {self._scenario.api} takes files, not URLs",
                        "name a file in the dataset, or choose another --api",
                    )
                slots.append(MediaSlot(medium.kind, "", "", detail, medium.url))
            else:
                link = None if self._server is None else _token(k)
                slots.append(MediaSlot(medium.kind, medium.mime, _token(k), detail, link))
        return tuple(slots)

    def _named(self, shown: MediaSet) -> Sequence[tuple[str, Strand]]:
        made: list[tuple[str, Strand]] = []
        for k, medium in enumerate(shown.media):
            if isinstance(medium, Media):
                strand: Strand
                if self._server is not None:
                    strand = self._server.strand(medium)
                else:
                    strand = file_strand(medium, raw=self._api.raw)
                made.append((_token(k), strand))
        return made


def _token(k: int) -> str:
    return f"@@mmload-medium-{k}@@"


def _answer(words: int) -> str:
    """What the assistant "said" in an earlier turn: so many words, about as many tokens."""
    return " ".join(islice(cycle(ANSWER_WORDS), words))


def facts(medium: Media | Link) -> dict[str, Any]:
    """A medium in a line of payloads.jsonl."""
    if isinstance(medium, Link):
        return {"kind": medium.kind, "url": medium.url}
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
