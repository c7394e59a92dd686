"""Server-sent events out of a byte stream, however it is cut. Pure; no JSON, no time.

The WHATWG grammar: lines end in LF, CRLF or CR (also split between reads); `data:` with or without
one space; several data lines make one event, joined by LF; comments (`:`) and unknown fields are
ignored, but for comments that begin with `COMMENT`, which are kept; a leading byte order mark is
dropped. Bytes stay bytes, so UTF-8 may be cut anywhere. Lines have no length limit of their own;
one event may hold `MAX_EVENT_BYTES`.
https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from typing import Final, NamedTuple

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
COMMENT: Final = b"mmload-spans "  # a traced server's spans, see mmload.hook.inline
MAX_COMMENT_BYTES: Final = 1024 * 1024  # of a stream, together

_BOM: Final = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event: its `event:` field (empty: "message") and its data."""

    name: bytes
    data: bytes


class EventTooLarge(ValueError):
    """More than MAX_EVENT_BYTES without the end of an event: not a stream of events."""


class SseParser:
    """Feed bytes, get whole events; `finish()` at the end of the stream gives a last one."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._line: list[bytes] = []  # pieces of the unfinished line
        self._line_bytes = 0
        self._skip_lf = False  # the last read ended in CR: a leading LF belongs to it
        self._start: bytes | None = b""  # until the byte order mark is decided; then None
        self._name = b""
        self._data: list[bytes] = []  # data lines of the unfinished event
        self._data_bytes = 0
        self.comments: list[bytes] = []  # what follows COMMENT, a line each
        self._comment_bytes = 0

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete. Raises EventTooLarge."""
        if self._start is not None:
            data = self._start + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._start = data
                return []
            self._start = None
            data = data.removeprefix(_BOM)
        if self._skip_lf and data:
            data = data.removeprefix(b"\n")
            self._skip_lf = False
        if b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        rest = lines.pop()
        events: list[Event] = []
        if lines:
            if self._line:
                self._line.append(lines[0])
                lines[0] = b"".join(self._line)
                self._line.clear()
                self._line_bytes = 0
            for line in lines:
                self._take(line, events)
        if rest:
            self._line.append(rest)
            self._line_bytes += len(rest)
        if self._line_bytes + self._data_bytes > self._max:
            raise EventTooLarge(f"an event of more than {self._max} bytes")
        return events

    def finish(self) -> list[Event]:
        """What the end of the stream leaves: servers forget the last blank line. The grammar would
        drop it; here the API's reader decides whether it is whole."""
        events: list[Event] = []
        if self._start:
            self._line, self._start = [self._start], None
        if self._line:
            self._take(b"".join(self._line), events)
            self._line.clear()
        self._take(b"", events)
        return events

    def _take(self, line: bytes, events: list[Event]) -> None:
        if not line:
            if self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                events.append(Event(self._name, data))
                self._data = []
                self._data_bytes = 0
            self._name = b""
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 8  # a list entry even when empty
        elif field == b"event":
            self._name = value
        elif not field and value.startswith(COMMENT):
            self._comment_bytes += len(value)
            if self._comment_bytes <= MAX_COMMENT_BYTES:
                self.comments.append(value.removeprefix(COMMENT))
