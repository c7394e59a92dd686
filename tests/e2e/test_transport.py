"""The HTTP transport on real sockets: counts, order and bytes, never durations."""

import asyncio
import hashlib
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mmload.clock import MonotonicClock
from mmload.load.http import HttpTransport
from mmload.load.transport import Address, Headers
from mmload.records import Outcome
from tests.e2e.raw_server import Request, raw_server

SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Heard:
    """A sink that writes down what it hears."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.body = b""
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.reused: bool | None = None
        self.failure: tuple[Outcome, str] | None = None
        self.over = asyncio.Event()
        self.times: list[int] = []

    def on_connected(self, now_ns: int, reused: bool) -> None:
        self._heard("connected", now_ns)
        self.reused = reused

    def on_written(self, now_ns: int) -> None:
        self._heard("written", now_ns)

    def on_head(self, status: int, headers: Headers, now_ns: int) -> None:
        self._heard("head", now_ns)
        self.status, self.headers = status, dict(headers)

    def on_body(self, data: bytes, now_ns: int) -> None:
        self._heard("body", now_ns)
        self.body += data

    def on_end(self, now_ns: int) -> None:
        self._heard("end", now_ns)
        self.over.set()

    def on_failure(self, outcome: Outcome, message: str, now_ns: int) -> None:
        self._heard("failure", now_ns)
        self.failure = (outcome, message)
        self.over.set()

    def _heard(self, what: str, now_ns: int) -> None:
        assert not self.over.is_set(), f"{what} after the end"
        self.calls.append(what)
        self.times.append(now_ns)


def head(length: int) -> bytes:
    return b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % length


async def send(transport: HttpTransport, *pieces: bytes) -> Heard:
    heard = Heard()
    transport.send(head(sum(map(len, pieces))), pieces, heard)
    await asyncio.wait_for(heard.over.wait(), 10)
    return heard


Handler = Callable[..., Coroutine[Any, Any, bool]]


async def ok(request: Request, reader: Any, writer: asyncio.StreamWriter) -> bool:
    writer.write(SSE + b"5\r\nhello\r\n")
    await writer.drain()
    writer.write(b"1\r\n!\r\n0\r\n\r\n")
    return True


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    factory = None
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop

    def runner(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as r:
            r.run(coroutine)

    return runner


Run = Callable[[Coroutine[Any, Any, None]], None]


def test_a_body_in_pieces_arrives_whole_and_connections_are_reused(run: Run) -> None:
    pieces = [os.urandom(n) for n in (0, 7, 200_000, 3, 1, 900_001, 16 * 1024, 50)]

    async def main() -> None:
        async with raw_server(ok) as server:
            transport = HttpTransport(server.address, MonotonicClock())
            first = await send(transport, *pieces)
            second = await send(transport, *pieces)
            await transport.close()
        assert (first.reused, second.reused) == (False, True)
        assert server.connections == 1
        for request in server.requests:
            sent = hashlib.sha256(b"".join(pieces)).digest()
            assert hashlib.sha256(request.body).digest() == sent
        for heard in (first, second):
            assert heard.status == 200 and heard.body == b"hello!"
            assert heard.headers[b"content-type"] == b"text/event-stream"
            assert heard.calls[:3] == ["connected", "written", "head"]
            assert heard.calls[-1] == "end"
            assert heard.times == sorted(heard.times)

    run(main())


def test_no_keepalive_opens_a_connection_each(run: Run) -> None:
    async def main() -> None:
        async with raw_server(ok) as server:
            transport = HttpTransport(server.address, MonotonicClock(), keepalive=False)
            heard = [await send(transport, b"x") for _ in range(3)]
            await transport.close()
        assert server.connections == 3 and [h.reused for h in heard] == [False] * 3

    run(main())


def test_many_slow_streams_at_once_are_not_limited(run: Run) -> None:
    n = 150
    waiting: list[asyncio.StreamWriter] = []

    async def hold(request: Request, reader: Any, writer: asyncio.StreamWriter) -> bool:
        waiting.append(writer)
        if len(waiting) == n:  # only when all are here does any get an answer
            for w in waiting:
                w.write(SSE + b"1\r\nx\r\n0\r\n\r\n")
        return True

    async def main() -> None:
        async with raw_server(hold) as server:
            transport = HttpTransport(server.address, MonotonicClock())
            heard = await asyncio.gather(*(send(transport, b"b" * 1000) for _ in range(n)))
            await transport.close()
        assert all(h.body == b"x" and h.failure is None for h in heard)

    run(main())


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 1\r\n\r\n!", 503, b"!"),
        (b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    ],
    ids=["length", "until-close", "http10", "continue", "hints"],
)
def test_framings(run: Run, answer: bytes, status: int, body: bytes) -> None:
    async def handler(request: Request, reader: Any, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer)
        return False

    async def main() -> None:
        async with raw_server(handler) as server:
            transport = HttpTransport(server.address, MonotonicClock())
            heard = await send(transport, b"x")
            await transport.close()
        assert (heard.status, heard.body, heard.failure) == (status, body, None)

    run(main())


@pytest.mark.parametrize(
    ("answer", "outcome", "words"),
    [
        (b"", Outcome.connection, "before any response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", Outcome.truncated, "in the middle"),
        (SSE + b"5\r\nhel", Outcome.truncated, "in the middle"),
        (b"SSH-2.0-OpenSSH_9\r\n", Outcome.malformed, "not an HTTP response"),
    ],
    ids=["nothing", "short", "cut", "ssh"],
)
def test_broken_answers(run: Run, answer: bytes, outcome: Outcome, words: str) -> None:
    async def handler(request: Request, reader: Any, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer)
        return False

    async def main() -> None:
        async with raw_server(handler) as server:
            transport = HttpTransport(server.address, MonotonicClock())
            heard = await send(transport, b"x")
            await transport.close()
        assert heard.failure is not None
        assert heard.failure[0] is outcome and words in heard.failure[1]

    run(main())


def test_nobody_listens(run: Run) -> None:
    async def main() -> None:
        async with raw_server(ok) as server:
            address = server.address
        transport = HttpTransport(Address(address.family, address.sockaddr), MonotonicClock())
        heard = await send(transport, b"x")
        await transport.close()
        assert heard.failure is not None and heard.failure[0] is Outcome.connection
        assert heard.failure[1].startswith("connect: ")

    run(main())


def test_an_answer_before_the_body_was_read_ends_the_connection(run: Run) -> None:
    async def refuse(request: Request, reader: Any, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()
        await reader.read(1000)
        return True

    async def main() -> None:
        async with raw_server(refuse, read_body=False) as server:
            transport = HttpTransport(server.address, MonotonicClock())
            heard = await send(transport, b"x" * 30_000_000)
            again = await send(transport, b"x")
            await transport.close()
        assert (heard.status, heard.body) == (413, b"big")
        assert again.reused is False and server.connections == 2

    run(main())


def test_a_cancelled_request_is_silent_and_closes_its_connection(run: Run) -> None:
    gone = asyncio.Event()

    async def hang(request: Request, reader: asyncio.StreamReader, writer: Any) -> bool:
        assert await reader.read() == b""
        gone.set()
        return False

    async def main() -> None:
        async with raw_server(hang) as server:
            transport = HttpTransport(server.address, MonotonicClock())
            heard = Heard()
            exchange = transport.send(head(1), [b"x"], heard)
            while not server.requests:
                await asyncio.sleep(0.001)
            before = list(heard.calls)
            exchange.cancel()
            await asyncio.wait_for(gone.wait(), 10)
            assert heard.calls == before
            await transport.close()

    run(main())
