"""What every API has in common: a request's body with places for media, a reader of its answer.

One API is one file in this folder and one line in `wire/__init__.py`. No I/O and no clock here: a
reader is fed bytes and the time at which they came, and writes what it learns into the `Record`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from mmload.load.media import MediaKind
from mmload.records import ANSWER_LIMIT, Outcome, Record
from mmload.wire.sse import Event, EventTooLarge, SseParser

MESSAGE_LIMIT: Final = 400
ERROR_BODY_LIMIT: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class MediaSlot:
    """A place in a body where a media file's bytes go; `token` stands there until then."""

    kind: MediaKind
    mime: str
    token: str

    @property
    def data_uri(self) -> str:
        return f"data:{self.mime};base64,{self.token}"


@dataclass(frozen=True, slots=True)
class Ask:
    """One request in the tool's own terms; an API turns it into its body."""

    model: str
    prompt: str
    media: tuple[MediaSlot, ...] = ()
    max_tokens: int = 64
    extra: Mapping[str, Any] = field(default_factory=dict)  # merged into the body, wins


class Reader(Protocol):
    """Reads one answer into its record. Times are nanoseconds since the run's origin."""

    def head(self, status: int, content_type: str) -> None:
        """The response head has arrived."""

    def feed(self, data: bytes, now_ns: int) -> None:
        """Body bytes, as they arrived."""

    def close(self) -> None:
        """The body ended cleanly: decide the outcome."""


class Api(Protocol):
    """One way of asking. `path` follows the base URL's `/v1`."""

    name: str
    path: str
    content_type: str

    def body(self, ask: Ask) -> bytes:
        """The request body, with each slot's token where the base64 of the media goes."""

    def reader(self, record: Record) -> Reader:
        """A reader for one answer."""


class StreamReader:
    """The part of a reader that all APIs share: errors by status, SSE, outputs, the outcome.

    A subclass gives `event` (one SSE event) and `whole` (a JSON body, when the server did not
    stream), calls `output` for what counts as output, and sets `ended` at the protocol's end.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.ended = False
        self._sse: SseParser | None = None
        self._body: list[bytes] = []
        self._body_size = 0
        self._answer: list[str] = []
        self._answer_size = 0
        self._error: tuple[Outcome, str] | None = None
        self._last_ns = 0

    # -- for subclasses ------------------------------------------------------------------------

    def event(self, event: Event, now_ns: int) -> None:
        raise NotImplementedError

    def whole(self, body: Any, now_ns: int) -> None:
        raise NotImplementedError

    def output(self, text: str, now_ns: int, *, reasoning: bool = False) -> None:
        """Non-empty output arrived: content, reasoning, a refusal or tool arguments."""
        record = self.record
        if record.first_output_ns is None:
            record.first_output_ns = now_ns
        if not reasoning:
            if record.first_answer_ns is None:
                record.first_answer_ns = now_ns
            if self._answer_size < ANSWER_LIMIT:
                self._answer.append(text)
                self._answer_size += len(text)
        record.last_output_ns = now_ns
        record.chunk_ns.append(now_ns)

    def fail(self, outcome: Outcome, message: str) -> None:
        """The first failure is the one that is kept."""
        if self._error is None:
            self._error = (outcome, shorten(message))

    # -- Reader --------------------------------------------------------------------------------

    def head(self, status: int, content_type: str) -> None:
        self.record.status = status
        if 200 <= status < 300 and content_type.lower().startswith("text/event-stream"):
            self._sse = SseParser()

    def feed(self, data: bytes, now_ns: int) -> None:
        record = self.record
        record.bytes_received += len(data)
        if record.first_byte_ns is None:
            record.first_byte_ns = now_ns
        self._last_ns = now_ns
        if self._sse is None:
            if self._body_size < ERROR_BODY_LIMIT or record.status == 200:
                self._body.append(data)
                self._body_size += len(data)
            return
        try:
            events = self._sse.feed(data)
        except EventTooLarge as error:
            self.fail(Outcome.malformed, str(error))
            return
        for event in events:
            self._read(event, now_ns)

    def close(self) -> None:
        record = self.record
        if self._sse is not None:
            for event in self._sse.finish():
                self._read(event, self._last_ns)
            if not self.ended:
                self.fail(Outcome.truncated, "the stream ended before its end marker")
        elif record.status is not None and not 200 <= record.status < 300:
            self.fail(Outcome.http_error, self._error_body())
        else:
            self._close_whole()
        record.answer = "".join(self._answer)[:ANSWER_LIMIT]
        if self._error is not None:
            record.outcome, record.message = self._error
        elif record.first_output_ns is None:
            record.outcome = Outcome.empty
            record.message = "the answer holds no output"
        else:
            record.outcome = Outcome.ok

    def _read(self, event: Event, now_ns: int) -> None:
        try:
            self.event(event, now_ns)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            excerpt = event.data[:80].decode("utf-8", "replace")
            self.fail(Outcome.malformed, f"an event that is not JSON ({error}): {excerpt}")
        except (TypeError, KeyError, AttributeError, IndexError, ValueError) as error:
            excerpt = event.data[:80].decode("utf-8", "replace")
            self.fail(Outcome.malformed, f"an event of an unknown shape ({error}): {excerpt}")

    def _close_whole(self) -> None:
        raw = b"".join(self._body)
        if not raw.strip():
            self.fail(Outcome.empty, "an empty body")
            return
        try:
            body = msgspec.json.decode(raw)
            if (error := error_text(body)) is not None:
                self.fail(Outcome.stream_error, error)
            else:
                self.whole(body, self._last_ns)
        except (msgspec.DecodeError, UnicodeDecodeError):
            excerpt = raw[:80].decode("utf-8", "replace")
            self.fail(Outcome.malformed, f"neither an event stream nor JSON: {excerpt}")
        except (TypeError, KeyError, AttributeError, IndexError, ValueError) as error:
            self.fail(Outcome.malformed, f"a JSON body of an unknown shape ({error})")

    def _error_body(self) -> str:
        raw = b"".join(self._body)[:ERROR_BODY_LIMIT]
        try:
            message = error_text(msgspec.json.decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError):
            message = None
        text = message or raw.decode("utf-8", "replace").strip()
        return f"HTTP {self.record.status}: {text}" if text else f"HTTP {self.record.status}"


def error_text(body: Any) -> str | None:
    """The message of an error object in any of the shapes that servers use, or None."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if error is None:
        if body.get("object") == "error":  # older vLLM
            return str(body.get("message", "error"))
        detail = body.get("detail")  # FastAPI
        return None if detail is None or "choices" in body else _words(detail)
    if isinstance(error, dict):
        return _words(error.get("message") or error.get("code") or error)
    return _words(error)


def _words(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_DATA_URI = re.compile(r"data:([a-z]+/[\w.+-]+);base64,[A-Za-z0-9+/=,]{40,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{120,}={0,2}")


def shorten(message: str) -> str:
    """One line of bounded length without the media that servers echo in their errors."""
    text = _DATA_URI.sub(r"data:\1;base64,...", message[: 4 * ERROR_BODY_LIMIT])
    text = " ".join(_BASE64.sub("...", text).split())
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 3] + "..."


def count(value: Any) -> int | None:
    """A token count as servers give it: a non-negative integer, else nothing."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
