"""A raw TCP server on loopback whose every byte is the test's to say."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from mmload.load.transport import Address, Tls


@dataclass
class Request:
    """What came in: head lines and the body, if it was read."""

    head: bytes
    body: bytes = b""
    connection: int = 0


Handler = Callable[["Request", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]


@dataclass
class RawServer:
    """`handler` answers one request and says whether the connection goes on."""

    handler: Handler
    read_body: bool = True
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    address: Address = field(init=False)
    port: int = 0
    listening: asyncio.Server | None = None
    tasks: "Tasks" = field(default_factory=lambda: Tasks())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.enter()
        self.connections += 1
        number = self.connections
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                request = Request(head, connection=number)
                self.requests.append(request)
                if self.read_body:
                    request.body = await reader.readexactly(content_length(head))
                if not await self.handler(request, reader, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def stop(self) -> None:
        """Takes no more connections."""
        assert self.listening is not None
        self.listening.close()
        await asyncio.sleep(0)


class Tasks:
    """What serves connections, so that a test can end after them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def enter(self) -> None:
        """Called by a task that serves a connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)

    async def ended(self) -> None:
        """Waits a little for all of them: their clients are gone."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1)


def content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


@asynccontextmanager
async def raw_server(
    handler: Handler,
    *,
    read_body: bool = True,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    client_tls: Tls | None = None,
    receive_buffer_bytes: int | None = None,
) -> AsyncIterator[RawServer]:
    server = RawServer(handler, read_body)
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if receive_buffer_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    sock.bind((host, 0))
    limit = 1 << 24 if receive_buffer_bytes is None else 1 << 16
    listening = await asyncio.start_server(server.serve, sock=sock, limit=limit, ssl=tls)
    server.listening = listening
    server.port = sock.getsockname()[1]
    server.address = Address(sock.family, sock.getsockname(), client_tls)
    try:
        yield server
    finally:
        listening.close()
        await server.tasks.ended()


@contextmanager
def serving(
    handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[RawServer]:
    """The same in a thread of its own, for commands in other processes."""
    ready = threading.Event()
    made: list[RawServer] = []
    stop: list[Callable[[], object]] = []

    async def main() -> None:
        end = asyncio.Event()
        async with raw_server(handler, host=host, tls=tls) as server:
            made.append(server)
            loop = asyncio.get_running_loop()
            stop.append(lambda: loop.call_soon_threadsafe(end.set))
            ready.set()
            await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),), name="raw-server")
    thread.start()
    assert ready.wait(10)
    try:
        yield made[0]
    finally:
        stop[0]()
        thread.join(10)


EVENT = b'data: {"choices":[{"delta":{"content":"%s"},"finish_reason":"stop"}]}\n\n'


async def chat(request: Request, writer: asyncio.StreamWriter, text: bytes = b"hello") -> bool:
    """Answers as a chat server: one model, one event."""
    if request.head.startswith(b"GET "):
        body = b'{"data": [{"id": "m"}]}'
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body)
        )
        return True
    event = EVENT % text + b"data: [DONE]\n\n"
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s"
        % (len(event), event)
    )
    return True


async def always_chat(
    request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    return await chat(request, writer)
