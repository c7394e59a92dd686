"""One HTTP/1.1 connection, made for large bodies and true stamps; which is why it is ours.

A stamp is taken in the callback that the socket read ends in, not where some coroutine later wakes
up. A body is written from prepared pieces without a copy, in slices, so that the reads of other
requests are not kept waiting behind it. The response grammar is llhttp's (httptools).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

import httptools

from mmload.clock import Clock
from mmload.load.failures import describe
from mmload.load.payloads import Piece
from mmload.load.transport import Sink
from mmload.records import Outcome

SLICE_BYTES: Final = 128 * 1024


class Owner(Protocol):
    """Who keeps the connections."""

    def opened(self, connection: "Connection") -> None: ...

    def free(self, connection: "Connection", now_ns: int) -> None: ...

    def gone(self, connection: "Connection") -> None: ...


class Request:
    """One request on its way: what is still to be written, and whom to tell."""

    __slots__ = ("connecting", "connection", "head", "pieces", "sink")

    def __init__(self, head: bytes, pieces: Sequence[Piece], sink: Sink) -> None:
        self.head = head
        self.pieces = pieces
        self.sink: Sink | None = sink
        self.connecting: asyncio.Task[None] | None = None
        self.connection: Connection | None = None

    def cancel(self) -> None:
        self.sink = None
        if self.connection is not None:
            self.connection.abort()
        elif self.connecting is not None:
            self.connecting.cancel()

    def fail(self, outcome: Outcome, message: str, now_ns: int) -> None:
        sink, self.sink = self.sink, None
        if sink is not None:
            sink.on_failure(outcome, message, now_ns)


class Connection(asyncio.Protocol):
    """One TCP (or TLS) connection: writes a request in slices, parses its response."""

    def __init__(self, owner: Owner, clock: Clock) -> None:
        self._owner = owner
        self._now_ns: Callable[[], int] = clock.now_ns
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._request: Request | None = None
        self._reused = False
        self._parser: Any = None
        self._to_write: list[Piece] = []
        self._paused = False
        self._stamp_ns = 0
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._complete = False
        self._keep = False

    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def start(self, request: Request, *, reused: bool) -> None:
        if request.sink is None:  # cancelled while connecting
            self.abort()
            return
        self._request, self._reused = request, reused
        request.connection = self
        self._parser = httptools.HttpResponseParser(self)
        self._reset()
        request.sink.on_connected(self._now_ns(), reused)
        self._to_write = slices(request.head, request.pieces)
        self._write()

    # -- writing: slices, with the loop's reads in between ----------------------------------------

    def _write(self) -> None:
        if self._request is None or not self.usable():
            return
        assert self._transport is not None
        if self._to_write and not self._paused:
            piece = self._to_write.pop()
            self._transport.write(piece)
        if not self._paused:
            if self._to_write:
                self._loop.call_soon(self._write)
            elif self._request.sink is not None:
                self._request.sink.on_written(self._now_ns())

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._write()

    # -- reading -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, since uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        # Paused: bytes are not in the socket yet. Of 1, not 0: TLS transports would never resume.
        self._transport.set_write_buffer_limits(high=1, low=0)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        self._stamp_ns = self._now_ns()
        if self._request is None:  # bytes that nobody asked for
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Outcome.malformed, f"not an HTTP response: {error}")
        if self._complete:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stamp_ns = self._now_ns()
        self._owner.gone(self)
        # Parser and transport refer back to here: cycles that nothing would collect during a run.
        self._parser = self._transport = None
        if self._request is None:
            return
        framed = b"content-length" in self._headers or b"transfer-encoding" in self._headers
        if exc is None and self._status and not framed:
            self._finish()  # a body that runs until the connection closes
        elif self._status:
            why = describe(exc) if exc else "the server closed the connection"
            self._fail(Outcome.truncated, f"{why} in the middle of the response")
        else:
            why = describe(exc) if exc else "the server closed the connection"
            where = "kept-alive connection" if self._reused else "new connection"
            self._fail(Outcome.connection, f"{why} before any response ({where})")

    # -- httptools callbacks -----------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status >= 200 and self._request is not None and self._request.sink is not None:
            self._request.sink.on_head(self._status, self._headers, self._stamp_ns)

    def on_body(self, data: bytes) -> None:
        if self._request is not None and self._request.sink is not None:
            self._request.sink.on_body(data, self._stamp_ns)

    def on_message_complete(self) -> None:
        if self._status >= 200:
            self._complete = True
            self._keep = self._parser.should_keep_alive()  # only known in this callback
        else:  # 1xx: the answer is still to come
            self._reset()

    def _reset(self) -> None:
        self._status = 0
        self._headers = {}
        self._complete = False
        self._keep = False

    # -- the end of an exchange --------------------------------------------------------------------

    def _finish(self) -> None:
        request, self._request = self._request, None
        assert request is not None
        # A response that came before the whole body was sent leaves the connection out of step.
        keep = self._keep and not self._to_write and not self._paused
        self._to_write = []
        if keep:
            self._owner.free(self, self._stamp_ns)
        else:
            self.abort()
        sink, request.sink = request.sink, None
        if sink is not None:
            sink.on_end(self._stamp_ns)

    def _fail(self, outcome: Outcome, message: str) -> None:
        request, self._request = self._request, None
        self._to_write = []
        self.abort()
        if request is not None:
            request.fail(outcome, message, self._stamp_ns)


def slices(head: bytes, pieces: Sequence[Piece]) -> list[Piece]:
    """The request in write-sized parts, last first (a stack). Small pieces are joined, large ones
    cut by view; the head goes with the first bytes of the body."""
    parts: list[Piece] = []
    small: list[Piece] = [head]
    size = len(head)
    for piece in pieces:
        if len(piece) <= SLICE_BYTES // 8:
            small.append(piece)
            size += len(piece)
            if size < SLICE_BYTES:
                continue
        if small:
            parts.append(b"".join(small))
            small, size = [], 0
        if len(piece) > SLICE_BYTES // 8:
            view = memoryview(piece)
            parts.extend(view[i : i + SLICE_BYTES] for i in range(0, len(view), SLICE_BYTES))
    if small:
        parts.append(b"".join(small))
    parts.reverse()
    return parts
