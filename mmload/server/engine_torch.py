"""The engine that computes: a real vision-language model, in a thread of its own, on CUDA or a CPU.

One request at a time, in order of arrival: each medium through the vision tower, the prompt through
the language model, then token by token until the answer ends; then the next. That is the simplest
schedule that is right, and each stage's time is one request's alone. It is not a serving engine:
no batching, no chunked prefill, no paged or shared cache of keys and values, no sampling, one
device. So a request waits for the whole answers of those before it.

Stages are stamped by marks on the device (`device_time.py`) that are read when the answer has
ended: nothing waits for the device but the reading of a token, for that token. On CUDA the next
step is queued before the last token is read, so that the device has no gap. A request whose client
has left ends before its next step.
"""

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch

from mmload.clock import Clock
from mmload.hook import spans
from mmload.server.device_time import CudaTimeline, HostTimeline, Timeline
from mmload.server.embedding_cache import EmbeddingCache
from mmload.server.engine import EngineWork, Token
from mmload.server.inputs import Medium, ModelInputs
from mmload.server.metrics import Metrics, Presence
from mmload.server.prompts import Detokenizer, Prompts
from mmload.server.vision_language import Decoding, Features, Pending, VisionLanguageModel

END_S: Final = 5.0  # that the work under way gets when the server ends


@dataclass(eq=False)
class _Sequence:
    work: EngineWork
    inputs: ModelInputs
    submitted_ns: int
    waiting: Presence
    working: Presence | None = None  # of the engine's thread
    out: "asyncio.Queue[Token | Exception]" = field(default_factory=asyncio.Queue)
    gone: bool = False  # the client left: nobody reads `out`


class _Stretch(NamedTuple):
    """A stage of a request, between two marks of one timeline."""

    stage: str
    timeline: Timeline
    start: Any
    end: Any
    facts: dict[str, Any]


class TorchEngine:
    """An `Engine`. `threads`: torch's, within one operation, for this engine's thread."""

    needs_inputs = True

    def __init__(
        self,
        model: VisionLanguageModel,
        prompts: Prompts,
        clock: Clock,
        metrics: Metrics,
        *,
        threads: int,
        cached_media: int,
    ) -> None:
        self._model = model
        self._prompts = prompts
        self._clock = clock
        self._metrics = metrics
        self._threads = threads
        self._caching = cached_media > 0
        self._cache: EmbeddingCache[Features] = EmbeddingCache(cached_media)
        self._timeline = self._timeline_of(model.place.device)
        self._encoder_timeline = (
            self._timeline
            if model.place.encoder == model.place.device
            else self._timeline_of(model.place.encoder)
        )
        self._queue: queue.SimpleQueue[_Sequence | None] = queue.SimpleQueue()
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def ends_answers(self) -> bool:
        return bool(self._model.ends)

    def describe(self) -> dict[str, Any]:
        """What computes, for the run's record."""
        place = self._model.place
        name = torch.cuda.get_device_name() if place.device == "cuda" else "CPU"
        encoder = {} if place.encoder == place.device else {"encoder_device": "CPU, in float32"}
        timed = {"phases_timed_by": self._timeline.timed_by}
        return {"model_served": self._model.words, "device": name, **encoder, **timed}

    async def generate(self, work: EngineWork) -> AsyncGenerator[Token, None]:
        assert work.inputs is not None
        now_ns = self._clock.now_ns()
        sequence = _Sequence(work, work.inputs, now_ns, self._metrics.enter("engine_wait"))
        self._queue.put(sequence)
        try:
            while True:
                token = await sequence.out.get()
                if isinstance(token, Exception):
                    raise token
                yield token
                if token.ended or token.number + 1 == work.output_tokens:
                    return
        finally:
            sequence.gone = True
            sequence.waiting.leave()

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = self._loop.create_future()
        thread = threading.Thread(target=self._thread, args=(ended,), name="engine", daemon=True)
        thread.start()
        try:
            await ended
        finally:
            self._stopping = True
            self._queue.put(None)
            thread.join(END_S)

    # -- the engine's thread -------------------------------------------------------------------

    def _thread(self, ended: "asyncio.Future[None]") -> None:
        torch.set_num_threads(self._threads)
        try:
            with torch.inference_mode():
                while (sequence := self._queue.get()) is not None and not self._stopping:
                    self._serve(sequence)
        except BaseException as error:
            self._tell(ended.set_exception, error)

    def _serve(self, sequence: _Sequence) -> None:
        sequence.waiting.leave()
        if sequence.gone:
            sequence.inputs.drop_pixels()
            return
        done: list[_Stretch] = []
        picked_ns = self._clock.now_ns()
        work = sequence.work
        spans.record("engine_wait", sequence.submitted_ns, picked_ns, request_id=work.request_id)
        failure: Exception | None = None
        try:
            self._answer(sequence, done)
        except Exception as error:  # of this request: too long for the memory, for instance
            failure = error
        sequence.inputs.drop_pixels()
        self._enter(sequence, None)
        for one in done:
            self._stamp(work.request_id, one)
        if failure is not None:
            self._tell(sequence.out.put_nowait, failure)

    def _answer(self, sequence: _Sequence, done: list[_Stretch]) -> None:
        """Encodes, prefills and decodes; adds what was done to `done`."""
        inputs, timeline = sequence.inputs, self._timeline
        timeline.start()
        features = []
        for medium in inputs.media:
            features.append(self._features(medium, sequence, done))
            if self._withdrawn(sequence):
                return
        self._enter(sequence, "prefill")
        begun = timeline.mark()
        decoding = self._model.prefill(inputs, features)
        del features
        pending = deque([(Pending(decoding.token), timeline.mark())])
        facts = {**_width(), "prompt_tokens": len(inputs.ids)}
        done.append(_Stretch("prefill", timeline, begun, pending[0][1], facts))
        self._decode(sequence, decoding, pending, done)

    def _features(self, medium: Medium, sequence: _Sequence, done: list[_Stretch]) -> Features:
        """Of the cache, or by the vision tower."""
        timeline = self._encoder_timeline
        self._enter(sequence, "encoder")
        begun = timeline.mark()
        found = self._cache.find(medium.key)
        facts: dict[str, Any] = _width()
        if self._caching:
            kind = "hits" if found is not None else "misses"
            self._metrics.count(f"embedding_cache_{kind}", f"Media, {kind} of the encoder's cache.")
            facts["cache_hit"] = found is not None
        features = found if found is not None else self._model.encode(medium)
        medium.pixels = None
        self._cache.keep(medium.key, features)
        done.append(_Stretch("encoder", timeline, begun, timeline.mark(), facts))
        return features

    def _decode(
        self,
        sequence: _Sequence,
        decoding: Decoding,
        pending: "deque[tuple[Pending, Any]]",
        done: list[_Stretch],
    ) -> None:
        """Hands out the first token and all that follow. `pending`: launched, not read."""
        work, timeline = sequence.work, self._timeline
        ahead = 1 if self._model.place.device == "cuda" else 0
        words = Detokenizer(self._prompts)
        first = last = pending[0][1]
        launched, number = 1, 0
        while not self._withdrawn(sequence):
            while launched < work.output_tokens and len(pending) <= ahead:
                decoding.advance()
                pending.append((Pending(decoding.token), timeline.mark()))
                launched += 1
            token, last = pending.popleft()
            timeline.wait(last)
            if number == 0:
                self._enter(sequence, "decode")
            chosen = token.read()
            ended = chosen in self._model.ends and not work.ignore_end
            text = words.add(chosen)
            if ended or number + 1 == work.output_tokens:
                text += words.rest()
            made = Token(number, text, self._clock.now_ns(), ended)
            self._tell(sequence.out.put_nowait, made)
            number += 1
            if ended or number == work.output_tokens:
                break
        if number > 1:
            facts = {**_width(), "steps": number - 1}
            done.append(_Stretch("decode", timeline, first, last, facts))

    def _withdrawn(self, sequence: _Sequence) -> bool:
        return sequence.gone or self._stopping

    def _enter(self, sequence: _Sequence, stage: str | None) -> None:
        """Where the request is, for the gauges. Its time there is known later: see `_stamp`."""
        if sequence.working is not None:
            sequence.working.leave(timed=False)
        sequence.working = None if stage is None else self._metrics.enter(stage)

    def _stamp(self, request_id: str, one: _Stretch) -> None:
        one.timeline.wait(one.end)
        start_ns, end_ns = one.timeline.ns(one.start), one.timeline.ns(one.end)
        self._metrics.took(one.stage, end_ns - start_ns)
        timed_by = one.timeline.timed_by
        facts = {**one.facts, "timed_by": timed_by}
        spans.record(one.stage, start_ns, end_ns, request_id=request_id, **facts)

    def _tell(self, put: Callable[[Any], object], what: Any) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody listens
            self._loop.call_soon_threadsafe(put, what)

    def _timeline_of(self, device: str) -> Timeline:
        if device == "cuda":
            return CudaTimeline(torch.cuda, self._clock)
        return HostTimeline(self._clock)


def _width() -> dict[str, Any]:
    """One request at a time, on as many threads as torch really has here."""
    return {"pool_width": 1, "batched": False, "threads": torch.get_num_threads()}
