"""One connection over scripted transports: order of writes and reads, no reference cycles."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mmload.clock import MonotonicClock
from mmload.load.connection import SLICE_BYTES, Connection, Request, slices
from mmload.load.generator import Generator
from mmload.load.http import HttpTransport
from mmload.load.limits import Limits
from mmload.records import Outcome, Record
from tests.e2e.raw_server import raw_server
from tests.virtual.scripted import ScriptedJob

S = 1_000_000_000


class Owner:
    def opened(self, connection: Connection) -> None: ...

    def free(self, connection: Connection, now_ns: int) -> None: ...

    def gone(self, connection: Connection) -> None: ...


class Wire(asyncio.Transport):
    """Takes every write at once, and says in `events` when it came."""

    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self.events = events
        self.taken = 0

    def write(self, data: Any) -> None:
        self.taken += len(data)
        self.events.append("write")

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


class Deaf:
    """A sink that hears nothing but the end of writing."""

    def __init__(self) -> None:
        self.written = asyncio.Event()

    def on_connected(self, now_ns: int, reused: bool) -> None: ...

    def on_written(self, now_ns: int) -> None:
        self.written.set()

    def on_head(self, status: int, headers: Any, now_ns: int) -> None: ...

    def on_body(self, data: bytes, now_ns: int) -> None: ...

    def on_end(self, now_ns: int) -> None: ...

    def on_failure(self, outcome: Outcome, message: str, now_ns: int) -> None: ...


def test_slices_hold_the_same_bytes_in_order_and_are_small() -> None:
    pieces = [b"a" * 5, b"b" * 300_000, b"c" * 10, b"d" * 10, b"e" * SLICE_BYTES, b"f"]
    parts = [bytes(p) for p in reversed(slices(b"head", pieces))]
    assert b"".join(parts) == b"head" + b"".join(pieces)
    assert max(map(len, parts)) <= SLICE_BYTES + 16 * 1024


def test_a_large_body_lets_everything_else_in_between_its_slices() -> None:
    """20 MB on a wire that never says stop: other callbacks of the loop run before each slice."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        events: list[str] = []
        wire = Wire(events)
        connection = Connection(Owner(), MonotonicClock())
        connection.connection_made(wire)
        sink = Deaf()

        def other() -> None:
            events.append("other")
            if not sink.written.is_set():
                loop.call_soon(other)

        body = bytes(20_000_000)
        connection.start(Request(b"head", [body], sink), reused=False)
        loop.call_soon(other)
        await asyncio.wait_for(sink.written.wait(), 10)
        assert wire.taken == 4 + len(body)
        writes = events.count("write")
        assert writes >= len(body) // SLICE_BYTES
        assert events.count("other") >= writes - 1
        assert not any(events[i : i + 2] == ["write", "write"] for i in range(1, len(events)))

    asyncio.run(main())


def run_on(loop: str, main: Coroutine[Any, Any, None]) -> None:
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


EVENT = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'


async def streamed(request: Any, reader: Any, writer: asyncio.StreamWriter) -> bool:
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s"
        % (len(EVENT), EVENT)
    )
    return True


async def broken(request: Any, reader: Any, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nonly this")
    return False


async def refusing(request: Any, reader: Any, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")
    return True


async def silent(request: Any, reader: asyncio.StreamReader, writer: Any) -> bool:
    await reader.read()
    return False


class Job(ScriptedJob):
    def request(self, i: int, record: Record) -> tuple[bytes, list[bytes]]:
        return b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n", [b"body"]


Handler = Callable[..., Coroutine[Any, Any, bool]]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("handler", "keepalive", "outcome"),
    [
        (streamed, True, Outcome.ok),
        (streamed, False, Outcome.ok),
        (broken, True, Outcome.truncated),
        (refusing, True, Outcome.http_error),
        (silent, True, Outcome.timeout),
        (None, True, Outcome.connection),
    ],
    ids=["kept", "new-each", "broken", "retried", "timeout", "nobody"],
)
def test_requests_leave_nothing_for_the_collector(
    loop: str, handler: Handler | None, keepalive: bool, outcome: Outcome
) -> None:
    """The worker runs without garbage collection: reference counts alone must free everything."""
    n = 40
    gone: list[weakref.ref[Any]] = []
    records: list[Record] = []

    async def main() -> None:
        async with raw_server(handler or streamed) as server:
            address = server.address
            if handler is None:
                await server.stop()
            transport = HttpTransport(address, MonotonicClock(), keepalive=keepalive)
            made = transport.opened

            def opened(connection: Connection) -> None:
                gone.append(weakref.ref(connection))
                made(connection)

            transport.opened = opened  # type: ignore[method-assign]
            clock = MonotonicClock()
            now_ns = clock.now_ns()
            limits = Limits(S // 5 if handler is silent else 20 * S, retries=1)
            job = Job([i * 1_000_000 for i in range(n)])
            await asyncio.sleep(0.05)
            gc.collect()
            gc.disable()
            try:
                await Generator(job, transport, clock, now_ns, limits, records.append).run()
                await transport.close()
                del transport
                await asyncio.sleep(0.05)  # the loop lets go of closed sockets
                alive = [ref for ref in gone if ref() is not None]
                assert not alive, f"{len(alive)} of {len(gone)} connections are still there"
                found = {type(o).__name__ for o in _unreachable()}
            finally:
                gc.enable()
            assert not found & {"Flight", "Request", "Connection", "ChatReader", "Record", "Task"}

    run_on(loop, main())
    assert [r.outcome for r in records] == [outcome] * n
    if outcome is Outcome.http_error:
        assert all(len(r.attempts) == 2 for r in records)


def _unreachable() -> list[Any]:
    """What only the collector would free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
