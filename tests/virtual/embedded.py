"""The embedded server behind the transport seam: its whole pipeline on virtual time, without HTTP.

What runs is the server's own code (chat API, media pool, renderer, engine); only aiohttp and the
sockets are left out. Media are decoded in real threads, which take no virtual time, so with
`processor_fixed_ms` set, every time is known beforehand. Stamps of the hook follow the virtual
clock too, if the caller points `mmload.hook.spans.now_ns` at it.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from mmload.hook import spans
from mmload.load.payloads import Piece
from mmload.load.transport import Sink
from mmload.server.api_chat import ChatCompletions
from mmload.server.pipeline import Pipeline
from mmload.server.request import ApiError
from mmload.server.settings import ServerSettings
from tests.virtual.loop import VirtualClock


class EmbeddedTransport:
    """A `mmload.load.transport.Transport`. `head` is the request id; the pieces are a chat body."""

    def __init__(self, pipeline: Pipeline, settings: ServerSettings, clock: VirtualClock) -> None:
        self._pipeline = pipeline
        self._settings = settings
        self._clock = clock
        self._api = ChatCompletions()

    def send(self, head: bytes, pieces: Sequence[Piece], sink: Sink) -> "EmbeddedExchange":
        now_ns = self._clock.now_ns()
        sink.on_connected(now_ns, False)
        sink.on_written(now_ns)
        answer = self._answer(head.decode(), b"".join(pieces), sink)
        return EmbeddedExchange(asyncio.ensure_future(answer))

    async def close(self) -> None:
        pass

    async def _answer(self, request_id: str, body: bytes, sink: Sink) -> None:
        now_ns = self._clock.now_ns
        spans.request_id.set(request_id)
        try:
            request = self._api.parse(body, "application/json", request_id, self._settings)
            prepared = await self._pipeline.prepare(request)
        except ApiError as error:
            sink.on_head(error.status, {b"content-type": b"application/json"}, now_ns())
            sink.on_body(self._api.error(error), now_ns())
            sink.on_end(now_ns())
            return
        writer = self._api.writer(request, self._settings, 0)
        sink.on_head(200, {b"content-type": writer.stream_type.encode()}, now_ns())
        async with contextlib.aclosing(self._pipeline.generate(prepared)) as tokens:
            sink.on_body(writer.first(prepared.usage()), now_ns())
            async for token in tokens:
                sink.on_body(writer.token(token), now_ns())
        usage = prepared.usage(token.number + 1)
        sink.on_body(writer.last(usage, prepared.finish_reason(token)), now_ns())
        sink.on_end(now_ns())


class EmbeddedExchange:
    """A request under way."""

    def __init__(self, task: "asyncio.Task[None]") -> None:
        self._task = task

    def cancel(self) -> None:
        self._task.cancel()
