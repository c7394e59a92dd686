"""The real transport: connections kept alive, a new one whenever none is free, no limit.

No redirects, no retries, no decompression (none is asked for). Names were resolved before.
"""

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from typing import Final

from mmload.clock import Clock
from mmload.load.connection import Connection, Request
from mmload.load.failures import TunnelRefused, connect_failure
from mmload.load.payloads import Piece
from mmload.load.transport import Address, Exchange, Sink

PREPARE_TIMEOUT_S: Final = 5.0
KEEPALIVE_IDLE_NS: Final = 3_000_000_000  # below the 5 s after which uvicorn closes
TUNNEL_HEAD_BYTES: Final = 64 * 1024


class HttpTransport:
    """A stack of kept-alive connections; `send` never waits for one."""

    def __init__(self, address: Address, clock: Clock, *, keepalive: bool = True) -> None:
        self._address = address
        self._tls = address.tls.context() if address.tls else None
        self._clock = clock
        self._keepalive = keepalive
        self._loop = asyncio.get_running_loop()
        self._idle: dict[Connection, int] = {}  # since when; the newest last
        self._all: set[Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()

    def send(self, head: bytes, pieces: Sequence[Piece], sink: Sink) -> Exchange:
        request = Request(head, pieces, sink)
        now_ns = self._clock.now_ns()
        while self._idle:
            connection, since_ns = self._idle.popitem()
            if now_ns - since_ns < KEEPALIVE_IDLE_NS and connection.usable():
                connection.start(request, reused=True)
                return request
            connection.abort()
        task = self._loop.create_task(self._connect(request))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        request.connecting = task
        return request

    async def prepare(self) -> None:
        """Opens a connection before the clock starts: the first request must not pay for all that
        a process loads with its first one. A failure is left for the requests to meet."""
        if self._keepalive:
            with contextlib.suppress(OSError):
                connection = await asyncio.wait_for(self._open(), PREPARE_TIMEOUT_S)
                self.free(connection, self._clock.now_ns())

    async def _open(self) -> Connection:
        """A new connection, through the proxy and TLS where there are any. Raises OSError."""
        address = self._address
        sock = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.sock_connect(sock, address.sockaddr)
            if address.tunnel is not None:
                await self._open_tunnel(sock, address.tunnel)
            _, connection = await self._loop.create_connection(
                lambda: Connection(self, self._clock),
                sock=sock,
                ssl=self._tls,
                server_hostname=address.tls.server_name if address.tls else None,
            )
        except BaseException:
            sock.close()
            raise
        return connection

    async def _connect(self, request: Request) -> None:
        try:
            connection = await self._open()
        except OSError as error:
            request.fail(*connect_failure(error), self._clock.now_ns())
        else:
            connection.start(request, reused=False)
        finally:
            request.connecting = None

    async def _open_tunnel(self, sock: socket.socket, head: bytes) -> None:
        """Asks the proxy for a way to the server. Nothing follows its answer until we speak."""
        await self._loop.sock_sendall(sock, head)
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            read = await self._loop.sock_recv(sock, 4096)
            answer += read
            if not read or len(answer) > TUNNEL_HEAD_BYTES:
                break
        status = answer.partition(b"\r\n")[0].decode("latin-1").split(" ", 1)
        if len(status) < 2 or not status[0].startswith("HTTP/1.") or status[1][:1] != "2":
            raise TunnelRefused(status[1] if len(status) > 1 else "")

    def free(self, connection: Connection, now_ns: int) -> None:
        """A connection finished a response and may carry another."""
        if self._keepalive and connection.usable():
            self._idle[connection] = now_ns
        else:
            connection.abort()

    def opened(self, connection: Connection) -> None:
        self._all.add(connection)

    def gone(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._idle.pop(connection, None)

    async def close(self) -> None:
        for task in list(self._connecting):
            task.cancel()
        for connection in list(self._all):
            connection.abort()
        while self._all or self._connecting:
            await asyncio.sleep(0)
