"""A raw TCP server on loopback whose every byte is the test's to say."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mmload.load.transport import Address


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

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


@asynccontextmanager
async def raw_server(handler: Handler, *, read_body: bool = True) -> AsyncIterator[RawServer]:
    server = RawServer(handler, read_body)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 24)
    sock = listening.sockets[0]
    server.port = sock.getsockname()[1]
    server.address = Address(sock.family, sock.getsockname())
    try:
        yield server
    finally:
        listening.close()
        await asyncio.sleep(0)
