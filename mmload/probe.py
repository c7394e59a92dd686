"""Does a server still see: a few pictures that nobody who sees gets wrong, asked one at a time.

In: where the server is and how to speak with it. Out: a `Reply` for each question, and a verdict.
Four solid colours, a word in black on white, and which half of a picture is red and which is blue:
an optimisation that drops, swaps or distorts what a model is shown gets some of them wrong. A model
that guesses one colour throughout gets two right, so up to that it counts as blind.

The requests go the way of all others (`load`, `wire`): the same bodies, transport and readers.
"""

import asyncio
import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from mmload.clock import MonotonicClock
from mmload.load.generator import Generator
from mmload.load.http import HttpTransport
from mmload.load.limits import Limits
from mmload.load.media import Media, images
from mmload.load.media.opencv import Pixels, cv2
from mmload.load.payloads import Piece
from mmload.load.redact import Redactor
from mmload.load.target import Target
from mmload.load.transport import Address
from mmload.records import Outcome, Record
from mmload.wire.base import Api, Ask, MediaSlot, Reader

SIDE: Final = 448  # pixels
WORD: Final = "MAPLE"
BY_GUESSING: Final = 2  # right answers of a model that says the same colour every time
COLOURS: Final = {  # in OpenCV's order: blue, green, red
    "red": (0, 0, 255),
    "green": (0, 160, 0),
    "blue": (255, 0, 0),
    "yellow": (0, 255, 255),
}
_TOKEN: Final = "@@mmload-picture@@"


class Question(NamedTuple):
    """`choices` are the answers that can be told apart; the first one that is named counts."""

    title: str
    prompt: str
    expected: str
    choices: tuple[str, ...]
    picture: Media


class Reply(NamedTuple):
    """What came back for a question. `failure` is empty when the request succeeded."""

    question: Question
    answer: str
    failure: str

    @property
    def right(self) -> bool:
        return not self.failure and named(self.answer, self.question.choices) == (
            self.question.expected
        )


class Verdict(NamedTuple):
    """`word` is SEES, SEES IN PART, DOES NOT SEE or CAN'T TELL; `sentence` follows it."""

    word: str
    sentence: str
    passed: bool


def questions() -> list[Question]:
    """The built-in set, the same pictures every time."""
    made = [
        Question(
            f"solid {name}",
            f"What colour is this picture? Answer with one word: {_either(COLOURS)}.",
            name,
            tuple(COLOURS),
            images.encode(_solid(name), "png"),
        )
        for name in COLOURS
    ]
    made.append(
        Question(
            "text on white",
            "What word is written in this picture? Answer with that word alone.",
            WORD.lower(),
            (WORD.lower(),),
            images.encode(_written(WORD), "png"),
        )
    )
    halves = np.concatenate([_solid("red")[:, : SIDE // 2], _solid("blue")[:, SIDE // 2 :]], 1)
    both = ("red", "blue")
    for side, colour in zip(("left", "right"), both, strict=True):
        prompt = f"What colour is the {side} half of this picture? Answer with one word:"
        made.append(
            Question(
                f"{side} half",
                f"{prompt} {_either(both)}.",
                colour,
                both,
                images.encode(halves, "png"),
            )
        )
    return made


def _solid(name: str) -> Pixels:
    return np.full((SIDE, SIDE, 3), COLOURS[name], np.uint8)


def _written(word: str) -> Pixels:
    paper = np.full((SIDE, SIDE, 3), 255, np.uint8)
    font, scale, thickness = cv2.FONT_HERSHEY_SIMPLEX, 3.2, 10
    (width, height), _ = cv2.getTextSize(word, font, scale, thickness)
    at = ((SIDE - width) // 2, (SIDE + height) // 2)
    cv2.putText(paper, word, at, font, scale, (0, 0, 0), thickness, cv2.LINE_AA)
    return paper


def _either(names: Sequence[str] | dict[str, Any]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}"


def named(answer: str, choices: Sequence[str]) -> str | None:
    """The choice that the answer names first, as a whole word; None when it names none."""
    pattern = "|".join(map(re.escape, choices))
    found = re.search(rf"(?<!\w)(?:{pattern})(?!\w)", answer.lower())
    return found[0] if found else None


def verdict(replies: Sequence[Reply]) -> Verdict:
    """Passed only when everything is right."""
    n, right = len(replies), sum(reply.right for reply in replies)
    failed = sum(bool(reply.failure) for reply in replies)
    if failed:
        return Verdict("CAN'T TELL", f"{failed} of {n} requests failed", passed=False)
    sentence = f"{right} of {n} answers are right"
    if right == n:
        return Verdict("SEES", sentence, passed=True)
    if right <= BY_GUESSING:
        return Verdict("DOES NOT SEE", f"{sentence}: guessing gives as many", passed=False)
    return Verdict("SEES IN PART", sentence, passed=False)


# -- asking ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """Whom to ask, and how."""

    target: Target
    address: Address
    api: Api
    model: str
    max_tokens: int
    limits: Limits
    request_prefix: str  # request ids are this and the number of the question


def ask_all(server: Server, asked: Sequence[Question]) -> list[Reply]:
    """Sends the questions one after the other, and waits for each answer."""
    records = asyncio.run(_send(server, asked))
    redactor = Redactor(server.target.secrets)
    replies = []
    for question, record in zip(asked, records, strict=True):
        redactor.record(record)
        failure = ""
        if record.outcome is not Outcome.ok:
            failure = f"{record.outcome.value.replace('_', ' ')}: {record.message}"
        replies.append(Reply(question, " ".join(record.answer.split()), failure))
    return replies


async def _send(server: Server, asked: Sequence[Question]) -> list[Record]:
    clock = MonotonicClock()
    transport = HttpTransport(server.address, clock, keepalive=server.target.keepalive)
    records: list[Record] = []
    job = _Job(server, [_body(server, question) for question in asked])
    generator = Generator(job, transport, clock, clock.now_ns(), server.limits, records.append)
    try:
        await generator.run()
    finally:
        await transport.close()
    return sorted(records, key=lambda record: record.index)


def _body(server: Server, question: Question) -> bytes:
    picture = question.picture
    slot = MediaSlot(picture.kind, picture.mime, _TOKEN)
    body = server.api.body(Ask(server.model, question.prompt, (slot,), server.max_tokens))
    data = picture.data if server.api.raw else base64.b64encode(picture.data)
    return body.replace(_TOKEN.encode(), data)


@dataclass
class _Job:
    """A `generator.Job` of whole bodies."""

    server: Server
    bodies: list[bytes]

    def __len__(self) -> int:
        return len(self.bodies)

    def intended_ns(self, i: int) -> int:
        return 0  # a closed loop sends when it can

    def record(self, i: int) -> Record:
        return Record(
            index=i,
            request_id=f"{self.server.request_prefix}-{i}",
            media_class="probe",
            payload=i,
            intended_ns=0,
            bytes_sent=len(self.bodies[i]),
        )

    def request(self, i: int, record: Record) -> tuple[bytes, Sequence[Piece]]:
        target, api = self.server.target, self.server.api
        head = target.head(
            "POST",
            target.base_path + api.path,
            api.content_type,
            len(self.bodies[i]),
            api.own_headers(target.authorization),
        )
        return head + f"X-Request-Id: {record.request_id}\r\n\r\n".encode(), [self.bodies[i]]

    def reader(self, record: Record) -> Reader:
        return self.server.api.reader(record)
