"""The part of a reader that all APIs share: first and last output, failures, the outcome.

In: bytes as they arrived, with their time. Out: the record, complete after `close`. No bytes of a
server may raise here or hold unbounded memory. `AnswerReader` knows no format; `StreamReader` reads
server-sent events, or one JSON body from a server that did not stream.
"""

from typing import Any, Final

import msgspec

from mmload.records import ANSWER_LIMIT, Outcome, Record
from mmload.wire.errors import ERROR_BODY_LIMIT, NOT_JSON, error_text, excerpt, shorten
from mmload.wire.sse import Event, EventTooLarge, SseParser

BODY_LIMIT_BYTES: Final = 64 * 1024 * 1024
USAGE_LIMIT_BYTES: Final = 16 * 1024
FINISH_LIMIT: Final = 80
UNKNOWN_SHAPE: Final = (TypeError, KeyError, AttributeError, IndexError, ValueError, RecursionError)
FAILED_FINISHES: Final = ("abort", "error", "cancelled")  # by which servers say: it failed
_SSE_STARTS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")


class AnswerReader:
    """A subclass gives `begin`, `read` and `finish`, for answers with a 2xx status, and calls
    `output` for what counts as output and `fail` for what makes the answer a failure."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.last_ns = 0  # arrival of the newest bytes
        self._answer: list[str] = []
        self._answer_size = 0
        self._error: tuple[Outcome, str] | None = None
        self._refused: list[bytes] | None = None  # the body of a status outside 2xx
        self._refused_size = 0

    # -- for subclasses ------------------------------------------------------------------------

    def begin(self, content_type: str) -> None:
        """The head of a 2xx answer; the content type is in lower case."""

    def read(self, data: bytes, now_ns: int) -> None:
        """Body bytes of a 2xx answer."""
        raise NotImplementedError

    def finish(self) -> None:
        """The body of a 2xx answer has ended."""
        raise NotImplementedError

    def output(self, text: str, now_ns: int, *, reasoning: bool = False) -> None:
        """Non-empty output arrived: content, reasoning, a refusal or tool arguments.

        Raises TypeError for what is no text: to a subclass, a wrong shape like any other.
        """
        if not isinstance(text, str):
            raise TypeError(f"output that is no text but {type(text).__name__}")
        record = self.record
        if record.first_output_ns is None:
            record.first_output_ns = now_ns
        if not reasoning:
            if record.first_answer_ns is None:
                record.first_answer_ns = now_ns
            if self._answer_size < ANSWER_LIMIT:
                self._answer.append(text[:ANSWER_LIMIT])
                self._answer_size += len(text)
        record.last_output_ns = now_ns
        record.chunk_ns.append(now_ns)

    def finished(self, reason: Any) -> None:
        """Why the model stopped, in the server's word."""
        if reason is None:
            return
        self.record.finish_reason = str(reason)[:FINISH_LIMIT]
        if reason in FAILED_FINISHES:
            self.fail(Outcome.stream_error, f"the server ended the answer with {reason!r}")

    def fail(self, outcome: Outcome, message: str) -> None:
        """The first failure is the one that is kept."""
        if self._error is None:
            self._error = (outcome, shorten(message))

    # -- Reader --------------------------------------------------------------------------------

    def head(self, status: int, content_type: str) -> None:
        self.record.status = status
        if 200 <= status < 300:
            self.begin(content_type.lower())
        else:
            self._refused = []

    def feed(self, data: bytes, now_ns: int) -> None:
        record = self.record
        record.bytes_received += len(data)
        if record.first_byte_ns is None:
            record.first_byte_ns = now_ns
        self.last_ns = now_ns
        if self._refused is None:
            self.read(data, now_ns)
        elif self._refused_size < ERROR_BODY_LIMIT:
            self._refused.append(data[:ERROR_BODY_LIMIT])
            self._refused_size += len(data)

    def close(self) -> None:
        record = self.record
        if self._refused is not None:
            self.fail(Outcome.http_error, _refusal(record.status, b"".join(self._refused)))
        else:
            self.finish()
        record.answer = "".join(self._answer)[:ANSWER_LIMIT]
        record.usage = _storable(record.usage)
        if self._error is not None:
            record.outcome, record.message = self._error
        elif record.first_output_ns is None:
            record.outcome = Outcome.empty
            record.message = "the answer holds no output"
        else:
            record.outcome = Outcome.ok


class StreamReader(AnswerReader):
    """A subclass gives `event` (one SSE event) and `whole` (a JSON body, when the server did not
    stream), and sets `ended` at the protocol's end. Both may raise what wrong shapes raise."""

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self.ended = False
        self._sse: SseParser | None = None
        self._events = 0
        self._deaf = False  # a body without end: the rest is not kept
        self._body: list[bytes] = []
        self._body_size = 0
        self._may_be_events = True

    def event(self, event: Event, now_ns: int) -> None:
        raise NotImplementedError

    def whole(self, body: Any, now_ns: int) -> None:
        raise NotImplementedError

    def begin(self, content_type: str) -> None:
        if content_type.startswith("text/event-stream"):
            self._sse = SseParser()

    def read(self, data: bytes, now_ns: int) -> None:
        if self._deaf:
            return
        if self._sse is not None:
            if not self._events and self._body_size < ERROR_BODY_LIMIT:
                self._body.append(data)  # for the message, should no event ever come
                self._body_size += len(data)
            self._parse(self._sse, data, now_ns)
            return
        self._body.append(data)
        self._body_size += len(data)
        if self._may_be_events and self._body_size >= max(map(len, _SSE_STARTS)):
            self._may_be_events = False
            opening = b"".join(self._body)
            if opening.startswith(_SSE_STARTS):  # a stream under another name
                self._sse = SseParser()
                self._body, self._body_size = [opening], len(opening)
                self._parse(self._sse, opening, now_ns)
        elif self._body_size > BODY_LIMIT_BYTES:
            self._give_up(f"more than {BODY_LIMIT_BYTES} bytes that are no event stream")

    def finish(self) -> None:
        if self._deaf:
            return
        if self._sse is None:
            self._finish_whole(b"".join(self._body))
            return
        raw = b"".join(self._body)
        left = self._sse.finish()
        if self._sse.comments:
            self.record.spans = [c.decode("utf-8", "replace") for c in self._sse.comments]
        for event in left:
            if not self.ended:
                self._read_event(event, self.last_ns, whole=False)
        if self.ended:
            return
        if self._events or _start_of_events(raw):
            self.fail(Outcome.truncated, "the stream ended before its end marker")
        else:  # called an event stream, and is something else
            self._finish_whole(raw)

    def _parse(self, parser: SseParser, data: bytes, now_ns: int) -> None:
        try:
            events = parser.feed(data)
        except EventTooLarge as error:
            self._give_up(str(error))
            return
        for event in events:
            self._read_event(event, now_ns)

    def _give_up(self, message: str) -> None:
        self.fail(Outcome.malformed, message)
        self._deaf = True
        self._sse = None
        self._body = []

    def _read_event(self, event: Event, now_ns: int, *, whole: bool = True) -> None:
        if not self._events:
            self._body = []
        self._events += 1
        try:
            self.event(event, now_ns)
        except NOT_JSON as error:
            if not whole:
                self.fail(Outcome.truncated, "the stream ended inside an event")
            shown = excerpt(event.data)
            self.fail(Outcome.malformed, f"an event that is not JSON ({error}): {shown}")
        except UNKNOWN_SHAPE as error:
            shown = excerpt(event.data)
            self.fail(Outcome.malformed, f"an event of an unknown shape ({error}): {shown}")

    def _finish_whole(self, raw: bytes) -> None:
        if not raw.strip():
            self.fail(Outcome.empty, "an empty body")
            return
        try:
            body = msgspec.json.decode(raw)
            if (error := error_text(body)) is not None:
                self.fail(Outcome.stream_error, error)
            else:
                self.whole(body, self.last_ns)
        except NOT_JSON:
            self.fail(Outcome.malformed, f"neither an event stream nor JSON: {excerpt(raw)}")
        except UNKNOWN_SHAPE as error:
            self.fail(Outcome.malformed, f"a JSON body of an unknown shape ({error})")


def _start_of_events(raw: bytes) -> bool:
    """Whether a stream of events could begin so."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    return raw.startswith(_SSE_STARTS) or any(start.startswith(raw) for start in _SSE_STARTS)


def count(value: Any) -> int | None:
    """A token count as servers give it: a non-negative integer that floats hold, else nothing."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
        return value
    return None


def _refusal(status: int | None, raw: bytes) -> str:
    try:
        message = error_text(msgspec.json.decode(raw))
    except NOT_JSON:
        message = None
    text = message or raw.decode("utf-8", "replace").strip()
    return f"HTTP {status}: {text}" if text else f"HTTP {status}"


def _storable(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """The usage object, if it is one that a line of records.jsonl can hold."""
    if usage is None:
        return None
    try:
        return usage if len(msgspec.json.encode(usage)) <= USAGE_LIMIT_BYTES else None
    except (ValueError, OverflowError, RecursionError):
        return None
