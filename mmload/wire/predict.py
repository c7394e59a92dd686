"""A bare `/predict`: one image and a prompt as a form, the answer as plain text while it is made.

What small servers around one model have (FastVLM on a CPU, for one): no model name, no limits, no
usage, no error events. Output is the first character; the answer ends where the body ends cleanly,
and an aborted body is a truncated answer. Text has no frames, so a chunk is a read.
"""

import codecs
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mmload.errors import UsageError
from mmload.load.media import MediaKind
from mmload.records import Outcome, Record
from mmload.wire.answer import AnswerReader
from mmload.wire.base import Api, Ask, MediaSlot
from mmload.wire.errors import ERROR_BODY_LIMIT, NOT_JSON, error_text, excerpt

BOUNDARY: Final = "mmload-5c1f0e7a9b3d48c6a2e4d7f1"


class PredictApi(Api):
    """`POST /predict`, fields `image` (a file) and `prompt`; `extra` gives more fields."""

    name = "predict"
    path = "/predict"
    versioned = False
    content_type = f"multipart/form-data; boundary={BOUNDARY}"
    raw = True
    conversations = False
    names_model = False

    def body(self, ask: Ask) -> bytes:
        if ask.history:
            raise UsageError(
                "--api predict: takes one prompt, not a conversation",
                "leave out --turns, or choose another --api",
            )
        fields = {"prompt": ask.prompt, **ask.extra}
        parts = [*map(_file, ask.media), *(_field(n, v) for n, v in fields.items())]
        return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()

    def reader(self, record: Record) -> "PredictReader":
        return PredictReader(record)

    def check(self, kinds: Sequence[MediaKind]) -> None:
        super().check(kinds)
        if len(kinds) != 1:
            raise UsageError(
                f"--api predict: takes one image a request, not {len(kinds) or 'text alone'}",
                "send one image (--frames 1), or choose another --api",
            )


class PredictReader(AnswerReader):
    """Reads a text/plain body. A JSON or event-stream body is another API's, or an error."""

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._other: list[bytes] | None = None  # the start of a body that is no text
        self._other_size = 0

    def begin(self, content_type: str) -> None:
        if content_type.startswith(("application/json", "text/event-stream", "text/html")):
            self._other = []

    def read(self, data: bytes, now_ns: int) -> None:
        if self._other is None:
            if text := self._text.decode(data):
                self.output(text, now_ns)
        elif self._other_size < ERROR_BODY_LIMIT:
            self._other.append(data[:ERROR_BODY_LIMIT])
            self._other_size += len(data)

    def finish(self) -> None:
        if self._other is None:
            if text := self._text.decode(b"", final=True):  # it stopped inside a character
                self.output(text, self.last_ns)
            return
        raw = b"".join(self._other)
        try:
            error = error_text(msgspec.json.decode(raw))
        except NOT_JSON:
            error = None
        if error is not None:
            self.fail(Outcome.stream_error, error)
        else:
            self.fail(Outcome.malformed, f"a body that is not plain text: {excerpt(raw)}")


def _file(slot: MediaSlot) -> bytes:
    suffix = slot.mime.partition("/")[2]
    head = f'name="image"; filename="image.{suffix}"\r\nContent-Type: {slot.mime}'
    return _part(head, slot.token)


def _field(name: str, value: Any) -> bytes:
    plain = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _part(f'name="{name}"', plain)


def _part(head: str, content: str) -> bytes:
    return f"--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n".encode()
