"""The renderer pool: tokenise, then the multimodal processor, on a few threads.

This is where a vision-language server loses its time under load: the pool is narrow (one worker by
default, as in vLLM) and the processor is slow, so requests queue in front of it while the engine's
gauges show nothing. `ThreadRenderer` does the real work; `FixedRenderer` stands in for it with a
service time that is known, which makes the whole server a queue whose growth can be computed.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar

import cv2

from mmload.clock import NS_PER_MS, Clock
from mmload.hook import pools, spans
from mmload.processors.arithmetic import Grid, grid_of
from mmload.processors.qwen3vl_numpy import process
from mmload.server.media import Decoded
from mmload.server.metrics import Metrics
from mmload.server.request import MediaError, ServeRequest
from mmload.server.settings import ServerSettings
from mmload.server.timing import sleep_until
from mmload.server.tokenizer import (
    IMAGE_PAD,
    VIDEO_PAD,
    Tokenizer,
    encode_chat,
    expand_placeholders,
)

T = TypeVar("T")


class Rendered(NamedTuple):
    """What the engine gets. The patches' values are dropped: the simulated device needs their
    number only, and 80 MB a request would pile up in front of it."""

    prompt_tokens: int
    media_tokens: int
    patches: int
    done_ns: int


class Renderer(Protocol):
    """Raises MediaError for media that the model refuses."""

    async def render(self, request: ServeRequest, media: Sequence[Decoded]) -> Rendered: ...

    def close(self) -> None: ...


async def in_pool(
    executor: ThreadPoolExecutor, wait: str, metrics: Metrics, work: Callable[[], T]
) -> T:
    """Runs `work` in a pool; the wait for a worker is a span and a presence at /metrics."""
    waiting = metrics.enter(wait)

    def run() -> T:
        waiting.leave()
        return work()

    try:
        return await pools.submit(executor, wait, run)
    finally:
        waiting.leave()


class _Prompt:
    """Tokenising and the prompt update, the same for both renderers."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._tokenizer = Tokenizer()
        special = self._tokenizer.special
        self._placeholders = frozenset((special[IMAGE_PAD], special[VIDEO_PAD]))

    def tokenize(self, request: ServeRequest) -> list[int]:
        with self._metrics.stage("tokenize") as seen:
            if request.templated:
                ids = encode_chat(self._tokenizer, request.turns)
            else:
                ids = self._tokenizer.encode(request.text)
            seen.add(tokens=len(ids))
            return ids

    def finish(self, ids: list[int], grids: Sequence[Grid], done_ns: int) -> Rendered:
        counts = [grid.tokens for grid in grids]
        prompt = expand_placeholders(ids, counts, self._placeholders)
        return Rendered(len(prompt), sum(counts), sum(grid.patches for grid in grids), done_ns)


def _media_facts(media: Sequence[Decoded]) -> dict[str, Any]:
    return {
        "frames": sum(len(decoded.frames) for decoded in media),
        "pixels": sum(len(decoded.frames) * decoded.size[0] * decoded.size[1] for decoded in media),
    }


class ThreadRenderer:
    """The real one: `renderer_workers` threads, numpy and OpenCV."""

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self._metrics = metrics
        self._prompt = _Prompt(metrics)
        self._width = settings.renderer_workers
        self._executor = ThreadPoolExecutor(self._width, "renderer")

    async def render(self, request: ServeRequest, media: Sequence[Decoded]) -> Rendered:
        return await in_pool(
            self._executor, "renderer_wait", self._metrics, lambda: self._work(request, media)
        )

    def _work(self, request: ServeRequest, media: Sequence[Decoded]) -> Rendered:
        ids = self._prompt.tokenize(request)
        if not media:
            return self._prompt.finish(ids, (), spans.now_ns())
        with self._metrics.stage("processor", measure_thread=True, **_media_facts(media)) as seen:
            seen.add(pool_width=self._width, threads=cv2.getNumThreads())
            try:
                grids = [process(decoded.kind, decoded.frames).grid for decoded in media]
            except ValueError as error:
                raise MediaError(str(error)) from error
            rendered = self._prompt.finish(ids, grids, 0)
        return rendered._replace(done_ns=spans.now_ns())

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class FixedRenderer:
    """A simulated processor: each request with media holds one of `renderer_workers` workers for
    exactly `processor_fixed_ms`. The worker's next request starts when that time is over, however
    late the timer was. Works on any event loop's time; tokenises on the loop, before the wait."""

    def __init__(self, settings: ServerSettings, clock: Clock, metrics: Metrics) -> None:
        assert settings.processor_fixed_ms is not None
        self._clock = clock
        self._metrics = metrics
        self._prompt = _Prompt(metrics)
        self._width = settings.renderer_workers
        self._service_ns = round(settings.processor_fixed_ms * NS_PER_MS)
        self._free_at_ns: asyncio.Queue[int] = asyncio.Queue()  # one entry an idle worker
        for _ in range(self._width):
            self._free_at_ns.put_nowait(0)

    async def render(self, request: ServeRequest, media: Sequence[Decoded]) -> Rendered:
        ids = self._prompt.tokenize(request)
        if not media:
            return self._prompt.finish(ids, (), self._clock.now_ns())
        try:
            grids = [grid_of(m.kind, len(m.frames), *m.size) for m in media]
        except ValueError as error:
            raise MediaError(str(error)) from error
        submitted_ns = self._clock.now_ns()
        waiting = self._metrics.enter("renderer_wait")
        try:
            idle_ns = await self._free_at_ns.get()
        finally:
            waiting.leave()
        start_ns = max(submitted_ns, idle_ns)
        end_ns = start_ns + self._service_ns
        facts = {**_media_facts(media), "pool_width": self._width}
        spans.record("renderer_wait", submitted_ns, start_ns, pool_width=self._width)
        present = self._metrics.enter("processor")
        try:
            await sleep_until(self._clock, end_ns)
        finally:
            present.leave()
            free_ns = min(end_ns, self._clock.now_ns())  # earlier when the client left
            self._free_at_ns.put_nowait(free_ns)
            spans.record("processor", start_ns, free_ns, simulated=True, **facts)
        return self._prompt.finish(ids, grids, end_ns)

    def close(self) -> None:
        """Holds nothing."""
