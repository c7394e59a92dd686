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

from mmload.clock import NS_PER_MS, Clock
from mmload.hook import pools, spans
from mmload.server.inputs import Medium, ModelInputs
from mmload.server.media import Decoded
from mmload.server.media_processors import Processor, image_limits, qwen_grid
from mmload.server.metrics import Metrics
from mmload.server.prompts import Prompts
from mmload.server.request import ServeRequest
from mmload.server.settings import ServerSettings
from mmload.server.timing import sleep_until

T = TypeVar("T")


class Rendered(NamedTuple):
    """What the engine gets. `inputs` only where it computes: the simulated device needs numbers,
    and the patches' 80 MB a request would pile up in front of it."""

    prompt_tokens: int
    media_tokens: int
    patches: int
    done_ns: int
    inputs: ModelInputs | None = None


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


def _rendered(
    prompts: Prompts, ids: list[int], media: list[Medium], done_ns: int, *, keep: bool = False
) -> Rendered:
    """The prompt update, the same for both renderers."""
    prompt = prompts.finish(ids, media)
    inputs = ModelInputs(prompt, media) if keep else None
    tokens, patches = sum(m.tokens for m in media), sum(m.patches for m in media)
    return Rendered(len(prompt), tokens, patches, done_ns, inputs)


def _tokenize(
    prompts: Prompts, metrics: Metrics, request: ServeRequest, media: Sequence[Decoded]
) -> list[int]:
    with metrics.stage("tokenize") as seen:
        ids = prompts.encode(request, media)
        seen.add(tokens=len(ids))
        return ids


def _media_facts(media: Sequence[Decoded]) -> dict[str, Any]:
    return {
        "frames": sum(len(decoded.frames) for decoded in media),
        "pixels": sum(len(decoded.frames) * decoded.size[0] * decoded.size[1] for decoded in media),
    }


class ThreadRenderer:
    """The real one: `renderer_workers` threads that run a processor.

    `keep`: the engine wants the processor's output; else it is let go at once.
    """

    def __init__(
        self,
        workers: int,
        metrics: Metrics,
        prompts: Prompts,
        processor: Processor,
        *,
        keep: bool = False,
    ) -> None:
        self._metrics = metrics
        self._prompts = prompts
        self._processor = processor
        self._keep = keep
        self._width = workers
        self._executor = ThreadPoolExecutor(workers, "renderer", processor.prepare_thread)

    async def render(self, request: ServeRequest, media: Sequence[Decoded]) -> Rendered:
        return await in_pool(
            self._executor, "renderer_wait", self._metrics, lambda: self._work(request, media)
        )

    def _work(self, request: ServeRequest, media: Sequence[Decoded]) -> Rendered:
        ids = _tokenize(self._prompts, self._metrics, request, media)
        if not media:
            return _rendered(self._prompts, ids, [], spans.now_ns(), keep=self._keep)
        with self._metrics.stage("processor", measure_thread=True, **_media_facts(media)) as seen:
            seen.add(pool_width=self._width)
            done = self._processor.process(media)
            seen.add(**done.facts)
            rendered = _rendered(self._prompts, ids, done.media, 0, keep=self._keep)
        return rendered._replace(done_ns=spans.now_ns())

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class FixedRenderer:
    """A simulated processor: each request with media holds one of `renderer_workers` workers for
    exactly `processor_fixed_ms`. The worker's next request starts when that time is over, however
    late the timer was. Works on any event loop's time; tokenises on the loop, before the wait."""

    def __init__(
        self, settings: ServerSettings, clock: Clock, metrics: Metrics, prompts: Prompts
    ) -> None:
        assert settings.processor_fixed_ms is not None
        self._clock = clock
        self._metrics = metrics
        self._prompts = prompts
        self._limits = image_limits(settings.max_image_tokens)
        self._width = settings.renderer_workers
        self._service_ns = round(settings.processor_fixed_ms * NS_PER_MS)
        self._free_at_ns: asyncio.Queue[int] = asyncio.Queue()  # one entry an idle worker
        for _ in range(self._width):
            self._free_at_ns.put_nowait(0)

    async def render(self, request: ServeRequest, media: Sequence[Decoded]) -> Rendered:
        ids = _tokenize(self._prompts, self._metrics, request, media)
        if not media:
            return _rendered(self._prompts, ids, [], self._clock.now_ns())
        sizes = [(m.kind, qwen_grid(m, self._limits)) for m in media]
        made = [Medium(kind, grid, grid.tokens) for kind, grid in sizes]
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
        return _rendered(self._prompts, ids, made, end_ns)

    def close(self) -> None:
        """Holds nothing."""
