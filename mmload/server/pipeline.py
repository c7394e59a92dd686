"""A request's way through the embedded server, stage by stage, whatever API it came by.

    prepare   media_wait, media_fetch, media_decode | renderer_wait, tokenize, processor | handoff
    generate  engine_wait, encoder, prefill, decode (see `engine.py`)

Everything that can be wrong with a request is found in `prepare`, before a byte of the answer is
sent. Cancelling either withdraws what has not started. No HTTP and no API formats here.

    async with Pipeline(settings, MonotonicClock(), metrics) as pipeline:
        prepared = await pipeline.prepare(request)
        async for token in pipeline.generate(prepared): ...
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

from mmload.clock import Clock
from mmload.hook import spans
from mmload.server.build import build
from mmload.server.engine import EngineWork, Token
from mmload.server.fetch import LoopbackFetcher
from mmload.server.media import Decoded, decode_bytes, decode_data_uri
from mmload.server.metrics import Metrics
from mmload.server.renderer import Rendered, in_pool
from mmload.server.request import ApiError, MediaPart, ServeRequest, Usage
from mmload.server.settings import ServerSettings

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request ready for the engine."""

    request_id: str
    rendered: Rendered
    frames: int
    output_tokens: int  # at most
    at_limit: str  # the finish reason there: "stop", the model ends by itself, or "length", cut
    ignore_end: bool

    def usage(self, output_tokens: int = 0) -> Usage:
        return Usage(self.rendered.prompt_tokens, self.rendered.media_tokens, output_tokens)

    def finish_reason(self, last: Token) -> str:
        return "stop" if last.ended else self.at_limit


class Pipeline:
    """Owns the pools, the engine's task and the fetcher; an async context manager."""

    def __init__(self, settings: ServerSettings, clock: Clock, metrics: Metrics) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._media_pool = ThreadPoolExecutor(settings.media_workers, "media")
        parts = build(settings, clock, metrics)
        self.describe = parts.describe  # what serves, for the hook
        self._renderer = parts.renderer
        self._engine = parts.engine
        self._fetcher = LoopbackFetcher(settings.max_body_mib * MIB)
        # decoded media until the processor has ended, its output until the encoder has taken it
        self._held_bytes = 0
        self.engine_task: asyncio.Task[None] | None = None

    async def prepare(self, request: ServeRequest) -> Prepared:
        """All CPU work. Raises ApiError; the context's request id must be set for the spans."""
        if self._held_bytes > self._settings.max_waiting_media_mib * MIB:
            raise ApiError(
                503,
                f"overloaded: {self._held_bytes // MIB} MiB of decoded media are waiting",
                kind="server_error",
                code="overloaded",
            )
        media = await self._load_all(request.media)
        held_bytes = sum(decoded.decoded_bytes for decoded in media)
        self._held_bytes += held_bytes
        try:
            rendered = await self._renderer.render(request, media)
        finally:
            self._held_bytes -= held_bytes
        output_tokens, at_limit = self._answer_length(request)
        spans.record("handoff", rendered.done_ns, self._clock.now_ns())
        frames = sum(len(decoded.frames) for decoded in media)
        return Prepared(
            request.request_id, rendered, frames, output_tokens, at_limit, request.ignore_end
        )

    async def generate(self, prepared: Prepared) -> AsyncGenerator[Token, None]:
        """The answer's tokens as they come; close it to withdraw the request."""
        rendered = prepared.rendered
        work = EngineWork(
            prepared.request_id,
            rendered.patches,
            rendered.prompt_tokens,
            prepared.output_tokens,
            prepared.ignore_end,
            rendered.inputs,
        )
        held_bytes = rendered.inputs.pixel_bytes if rendered.inputs is not None else 0
        self._held_bytes += held_bytes
        try:
            async with contextlib.aclosing(self._engine.generate(work)) as tokens:
                async for token in tokens:
                    self._held_bytes -= held_bytes
                    held_bytes = 0
                    yield token
        finally:
            self._held_bytes -= held_bytes

    def _answer_length(self, request: ServeRequest) -> tuple[int, str]:
        wanted = min(request.max_tokens, self._settings.max_tokens_limit)
        if self._engine.ends_answers:
            return wanted, "length"
        by_itself = self._settings.answer_tokens
        if by_itself <= wanted and not request.ignore_end:
            return by_itself, "stop"
        return wanted, "length"

    async def _load_all(self, parts: Sequence[MediaPart]) -> list[Decoded]:
        tasks = [asyncio.ensure_future(self._load(part)) for part in parts]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _load(self, part: MediaPart) -> Decoded:
        given = part.data
        if part.url.startswith(("http://", "https://")):
            with self._metrics.stage("media_fetch") as seen:
                given = await self._fetcher.get(part.url)
                seen.add(bytes=len(given))
        return await in_pool(
            self._media_pool, "media_wait", self._metrics, lambda: self._decode(part, given)
        )

    def _decode(self, part: MediaPart, given: bytes | None) -> Decoded:
        limit = self._settings.max_video_frames
        width = self._settings.media_workers
        with self._metrics.stage("media_decode", measure_thread=True, pool_width=width) as seen:
            if given is None:
                decoded = decode_data_uri(part.kind, part.url, limit)
            else:
                decoded = decode_bytes(part.kind, given, limit)
            height, across = decoded.size
            frames = len(decoded.frames)
            seen.add(frames=frames, pixels=frames * height * across, bytes=decoded.encoded_bytes)
            return decoded

    async def __aenter__(self) -> "Pipeline":
        self.engine_task = asyncio.create_task(self._engine.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.engine_task is not None:
            self.engine_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.engine_task
        await self._fetcher.__aexit__(kind, error, trace)
        self._media_pool.shutdown(wait=False, cancel_futures=True)
        self._renderer.close()
