"""Bytes out, time-stamped bytes in: HTTP/1.1 on asyncio transports. The seam that tests replace.

Made for large bodies under an open loop, which is why it is ours: the stamp is taken in the
callback that the socket read ends in, not where some coroutine later wakes up; a body is written
from prepared pieces without a copy, in slices, so that the reads of other requests are not kept
waiting behind it; and there is no limit on connections. The response grammar is llhttp's
(httptools). No redirects, no retries, no decompression (none is asked for).
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import httptools

from mmload.clock import Clock
from mmload.load.payloads import Piece
from mmload.records import Outcome

Headers = Mapping[bytes, bytes]  # names in lower case

SLICE_BYTES: Final = 128 * 1024
KEEPALIVE_IDLE_NS: Final = 3_000_000_000  # below the 5 s after which uvicorn closes


class Sink(Protocol):
    """What a transport tells of one request. All times are clock nanoseconds."""

    def on_connected(self, now_ns: int, reused: bool) -> None: ...
    def on_written(self, now_ns: int) -> None: ...
    def on_head(self, status: int, headers: Headers, now_ns: int) -> None: ...
    def on_body(self, data: bytes, now_ns: int) -> None: ...
    def on_end(self, now_ns: int) -> None: ...
    def on_failure(self, outcome: Outcome, message: str, now_ns: int) -> None: ...


class Exchange(Protocol):
    """A request under way; after `cancel` its sink hears nothing more."""

    def cancel(self) -> None: ...


class Transport(Protocol):
    """Sends one request: `head` without the blank line's request id, then the pieces."""

    def send(self, head: bytes, pieces: Sequence[Piece], sink: Sink) -> Exchange: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Tls:
    """How to speak TLS: whose name to check, against which authorities (None: the system's)."""

    server_name: str
    verify: bool = True
    cacert: str | None = None

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.cacert)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect: resolved once, before the run."""

    family: int
    sockaddr: tuple[Any, ...]
    tls: Tls | None = None


class HttpTransport:
    """The real transport: a free list of kept-alive connections, a new one whenever it is empty."""

    def __init__(self, address: Address, clock: Clock, *, keepalive: bool = True) -> None:
        self._address = address
        self._tls = address.tls.context() if address.tls else None
        self._clock = clock
        self._keepalive = keepalive
        self._loop = asyncio.get_running_loop()
        self._idle: list[tuple[_Connection, int]] = []
        self._all: set[_Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()

    def send(self, head: bytes, pieces: Sequence[Piece], sink: Sink) -> Exchange:
        request = _Request(self, head, pieces, sink)
        now_ns = self._clock.now_ns()
        while self._idle:
            connection, since_ns = self._idle.pop()
            if now_ns - since_ns < KEEPALIVE_IDLE_NS and connection.usable():
                connection.start(request, reused=True)
                return request
            connection.abort()
        task = self._loop.create_task(self._connect(request))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        request.connecting = task
        return request

    async def _connect(self, request: "_Request") -> None:
        address = self._address
        try:
            sock = socket.socket(address.family, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.sock_connect(sock, address.sockaddr)
                _, connection = await self._loop.create_connection(
                    lambda: _Connection(self, self._clock),
                    sock=sock,
                    ssl=self._tls,
                    server_hostname=address.tls.server_name if address.tls else None,
                )
            except BaseException:
                sock.close()
                raise
        except OSError as error:
            too_many = error.errno is not None and error.errno in _NO_DESCRIPTORS
            outcome = Outcome.client_error if too_many else Outcome.connection
            request.fail(outcome, f"connect: {describe(error)}", self._clock.now_ns())
        else:
            connection.start(request, reused=False)

    def free(self, connection: "_Connection", now_ns: int) -> None:
        """A connection finished a response and may carry another."""
        if self._keepalive and connection.usable():
            self._idle.append((connection, now_ns))
        else:
            connection.abort()

    def opened(self, connection: "_Connection") -> None:
        self._all.add(connection)

    def gone(self, connection: "_Connection") -> None:
        self._all.discard(connection)
        self._idle = [(c, t) for c, t in self._idle if c is not connection]

    async def close(self) -> None:
        for task in list(self._connecting):
            task.cancel()
        for connection in list(self._all):
            connection.abort()
        while self._all or self._connecting:
            await asyncio.sleep(0)


_NO_DESCRIPTORS: Final = (23, 24)  # ENFILE, EMFILE


def describe(error: BaseException) -> str:
    """An OS error in the system's words."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()


class _Request:
    """One request on its way: what is still to be written, and whom to tell."""

    __slots__ = ("connecting", "connection", "head", "pieces", "sink", "transport")

    def __init__(
        self, transport: HttpTransport, head: bytes, pieces: Sequence[Piece], sink: Sink
    ) -> None:
        self.transport = transport
        self.head = head
        self.pieces = pieces
        self.sink: Sink | None = sink
        self.connecting: asyncio.Task[None] | None = None
        self.connection: _Connection | None = None

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


class _Connection(asyncio.Protocol):
    """One TCP (or TLS) connection: writes a request in slices, parses its response."""

    def __init__(self, owner: HttpTransport, clock: Clock) -> None:
        self._owner = owner
        self._now_ns: Callable[[], int] = clock.now_ns
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._request: _Request | None = None
        self._parser: Any = None
        self._to_write: list[Piece] = []
        self._paused = False
        self._stamp_ns = 0
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._complete = False

    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def start(self, request: _Request, *, reused: bool) -> None:
        if request.sink is None:  # cancelled while connecting
            self.abort()
            return
        self._request = request
        request.connection = self
        self._parser = httptools.HttpResponseParser(self)
        self._reset()
        request.sink.on_connected(self._now_ns(), reused)
        self._to_write = _slices(request.head, request.pieces)
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
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=0)  # paused means: bytes are not in the socket yet
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
            self._fail(Outcome.connection, f"{why} before any response")

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
        else:  # 1xx: the answer is still to come
            self._reset()

    def _reset(self) -> None:
        self._status = 0
        self._headers = {}
        self._complete = False

    # -- the end of an exchange --------------------------------------------------------------------

    def _finish(self) -> None:
        request, self._request = self._request, None
        assert request is not None
        # A response that came before the whole body was sent leaves the connection out of step.
        keep = self._parser.should_keep_alive() and not self._to_write and not self._paused
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


def _slices(head: bytes, pieces: Sequence[Piece]) -> list[Piece]:
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
