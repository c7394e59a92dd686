"""Serves media by URL on loopback, from a process of its own: the generator must not feel it.

Each variant of a file has its own URL (`/FILE/VARIANT`), which gives exactly that variant's bytes:
what is unique in a body is unique by URL. Nothing but loopback is listened to. The process ends
with its parent, even if that is killed.
"""

import asyncio
import contextlib
import multiprocessing
from collections.abc import Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Final

from mmload.errors import MmloadError
from mmload.load.children import held_back, unbothered
from mmload.load.media import Media
from mmload.load.payloads import LinkStrand

HOST: Final = "127.0.0.1"
READY_TIMEOUT_S: Final = 60
HEAD_LIMIT_BYTES: Final = 16 * 1024


class MediaServer:
    """A running server, as a context manager. `strand` puts a file's URLs into bodies."""

    def __init__(self, media: Sequence[Media]) -> None:
        self._numbers = {medium.sha256: number for number, medium in enumerate(media)}
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs,), name="mmload-media", daemon=True
        )
        with held_back():
            self._process.start()
        theirs.close()
        self._pipe.send(list(media))
        if not self._pipe.poll(READY_TIMEOUT_S):
            self.close()
            raise MmloadError("the media server did not start in time")
        try:
            self._port: int = self._pipe.recv()
        except EOFError:
            self.close()
            raise MmloadError("the media server died while it started") from None

    def strand(self, medium: Media) -> LinkStrand:
        """The URL of each variant of a file."""
        number = self._numbers[medium.sha256]
        suffix = medium.mime.partition("/")[2]
        return LinkStrand(
            f"http://{HOST}:{self._port}/{number}/".encode(),
            f".{suffix}".encode(),
            medium.variants,
        )

    def close(self) -> None:
        self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def __enter__(self) -> "MediaServer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _serve(pipe: Connection) -> None:
    """Main function of the process: serves until the pipe closes."""
    unbothered()
    with contextlib.suppress(EOFError, BrokenPipeError):
        asyncio.run(_run(pipe, pipe.recv()))


async def _run(pipe: Connection, media: list[Media]) -> None:
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()
    server = await asyncio.start_server(
        lambda reader, writer: _converse(media, reader, writer), HOST, 0, limit=HEAD_LIMIT_BYTES
    )
    pipe.send(server.sockets[0].getsockname()[1])
    loop.add_reader(pipe.fileno(), closed.set)  # readable only when the other end is gone
    await closed.wait()
    loop.remove_reader(pipe.fileno())
    server.close()


async def _converse(
    media: list[Media], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One connection: requests in turn, until the other side has enough."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, _, rest = head.partition(b" ")
            status, mime, data = answer(media, method.decode("latin-1"), rest.split(b" ", 1)[0])
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: {mime}\r\n"
                f"Content-Length: {len(data)}\r\n\r\n".encode()
            )
            if method != b"HEAD":
                writer.write(data)
            await writer.drain()
            if b"connection: close" in head.lower():
                break
    writer.close()


def answer(media: Sequence[Media], method: str, path: bytes) -> tuple[str, str, bytes]:
    """Status, type and content for a request."""
    if method not in ("GET", "HEAD"):
        return "405 Method Not Allowed", "text/plain", b"GET and HEAD only"
    try:
        _, file, name = path.decode("ascii").split("/")
        medium = media[int(file)]
        return "200 OK", medium.mime, medium.variant(int(name.partition(".")[0]))
    except (ValueError, IndexError, UnicodeDecodeError):
        return "404 Not Found", "text/plain", b"no such medium"
