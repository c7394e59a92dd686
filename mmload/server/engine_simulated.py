"""The SIMULATED accelerator: one device that encodes, prefills and decodes by a cost model.

The device does one thing at a time, in this order: take the oldest waiting request if the batch has
room, encode its media, prefill its prompt (which gives its first token), then do one decode step
for all running requests (one token each); and again. So a newcomer delays the others' next token by
its encoder and prefill time, and a step costs more the more sequences share it:

    encoder = encoder_fixed_ms + encoder_ms_per_1k_patches x patches / 1000   (0 without media)
    prefill = prefill_fixed_ms + prefill_ms_per_1k_tokens x prompt tokens / 1000
    step    = decode_step_ms + decode_ms_per_sequence x running sequences

The device has its own time: each piece of work starts when the one before ended, whatever the event
loop did meanwhile, as on hardware. Tokens are words of a fixed text. Spans carry `simulated`.
"""

import asyncio
import collections
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Final

from mmload.clock import NS_PER_MS, Clock
from mmload.hook import spans
from mmload.server.engine import EngineWork, Token
from mmload.server.metrics import Metrics, Presence
from mmload.server.settings import ServerSettings
from mmload.server.timing import sleep_until

WORDS: Final = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut"
    " labore et dolore magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation ullamco"
    " laboris nisi ut aliquip ex ea commodo consequat."
).split()


@dataclass(eq=False)
class _Sequence:
    work: EngineWork
    submitted_ns: int
    presence: Presence
    out: "asyncio.Queue[Token]" = field(default_factory=asyncio.Queue)
    produced: int = 0
    first_ns: int = 0
    gone: bool = False  # the client left: nobody reads `out`


class SimulatedEngine:
    """An `Engine` whose `run` is the device, for one task."""

    needs_inputs = False
    ends_answers = False  # every answer has the length that it was asked to have

    def __init__(self, settings: ServerSettings, clock: Clock, metrics: Metrics) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._waiting: collections.deque[_Sequence] = collections.deque()
        self._running: list[_Sequence] = []
        self._wake = asyncio.Event()

    async def generate(self, work: EngineWork) -> AsyncGenerator[Token, None]:
        """Queues the work and yields its tokens as they come. Closing it withdraws the work."""
        now_ns = self._clock.now_ns()
        sequence = _Sequence(work, now_ns, self._metrics.enter("engine_wait"))
        self._waiting.append(sequence)
        self._wake.set()
        try:
            for _ in range(work.output_tokens):
                yield await sequence.out.get()
        finally:
            sequence.gone = True
            self._wake.set()

    async def run(self) -> None:
        """The device, until cancelled."""
        free_ns = self._clock.now_ns()
        while True:
            self._drop_gone()
            if not self._running:
                if not self._waiting:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                free_ns = max(free_ns, self._waiting[0].submitted_ns)
            has_room = len(self._running) < self._settings.max_batch
            if self._waiting and has_room and self._waiting[0].submitted_ns <= free_ns:
                free_ns = await self._admit(self._waiting.popleft(), free_ns)
            if self._running:
                free_ns = await self._step(free_ns)

    def _drop_gone(self) -> None:
        for sequence in [s for s in self._waiting if s.gone]:
            self._waiting.remove(sequence)
            sequence.presence.leave()
        for sequence in [s for s in self._running if s.gone]:
            self._finish(sequence, self._clock.now_ns())

    async def _admit(self, sequence: _Sequence, start_ns: int) -> int:
        """Encodes and prefills. Returns when the device is free again."""
        work, settings = sequence.work, self._settings
        self._left("engine_wait", sequence, sequence.submitted_ns, start_ns)
        if work.patches:
            per_1k = settings.encoder_ms_per_1k_patches
            cost_ns = _ns(settings.encoder_fixed_ms + per_1k * work.patches / 1000)
            end_ns = await self._occupy("encoder", sequence, start_ns, cost_ns)
            start_ns = end_ns
        if sequence.gone:
            return start_ns
        per_1k = settings.prefill_ms_per_1k_tokens
        cost_ns = _ns(settings.prefill_fixed_ms + per_1k * work.prompt_tokens / 1000)
        end_ns = await self._occupy("prefill", sequence, start_ns, cost_ns)
        sequence.first_ns = end_ns
        sequence.presence = self._metrics.enter("decode")
        self._running.append(sequence)
        self._emit(sequence, end_ns)
        return end_ns

    async def _occupy(self, stage: str, sequence: _Sequence, start_ns: int, cost_ns: int) -> int:
        sequence.presence = self._metrics.enter(stage)
        end_ns = start_ns + cost_ns
        await sleep_until(self._clock, end_ns)
        self._left(stage, sequence, start_ns, end_ns, pool_width=1)
        return end_ns

    async def _step(self, start_ns: int) -> int:
        """One decode step for all that run. Returns when the device is free again."""
        settings = self._settings
        batch = list(self._running)
        step_ms = settings.decode_step_ms + settings.decode_ms_per_sequence * len(batch)
        end_ns = start_ns + _ns(step_ms)
        await sleep_until(self._clock, end_ns)
        for sequence in batch:
            self._emit(sequence, end_ns)
        return end_ns

    def _emit(self, sequence: _Sequence, at_ns: int) -> None:
        number = sequence.produced
        word = WORDS[number % len(WORDS)]
        sequence.out.put_nowait(Token(number, f" {word}" if number else word, at_ns))
        sequence.produced += 1
        if sequence.produced == sequence.work.output_tokens:
            self._finish(sequence, at_ns)

    def _finish(self, sequence: _Sequence, at_ns: int) -> None:
        self._running.remove(sequence)
        steps = sequence.produced - 1
        if steps:
            width = self._settings.max_batch
            self._left("decode", sequence, sequence.first_ns, at_ns, pool_width=width, steps=steps)
        else:
            sequence.presence.leave()

    def _left(
        self, stage: str, sequence: _Sequence, start_ns: int, end_ns: int, **facts: Any
    ) -> None:
        sequence.presence.leave()
        name = sequence.work.request_id
        spans.record(stage, start_ns, end_ns, request_id=name, simulated=True, **facts)


def _ns(ms: float) -> int:
    return round(ms * NS_PER_MS)
