"""A scripted server behind the transport seam: what it does, and when, is the test's to say."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from mmload.load.generator import Generator
from mmload.load.limits import Limits
from mmload.load.payloads import Piece
from mmload.load.transport import Sink
from mmload.records import Outcome, Record
from mmload.wire import APIS
from mmload.wire.base import Reader
from tests.virtual.loop import VirtualClock

MS = 1_000_000
S = 1_000_000_000

SSE_HEAD = {b"content-type": b"text/event-stream"}


def chunk(text: str) -> bytes:
    """One chat chunk with content."""
    return b"data: " + msgspec.json.encode({"choices": [{"delta": {"content": text}}]}) + b"\n\n"


ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
STOP = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@dataclass(frozen=True)
class Step:
    """At `at_ns` (absolute), do this to the sink."""

    at_ns: int
    act: Callable[[Sink, int], None]


def answer(first_ns: int, tokens: int = 1, gap_ns: int = 0) -> list[Step]:
    """A good answer: head and role at once with the first token, then tokens `gap_ns` apart."""

    def say(data: bytes) -> Callable[[Sink, int], None]:
        return lambda sink, now: sink.on_body(data, now)

    steps = [Step(first_ns, lambda sink, now: sink.on_head(200, SSE_HEAD, now))]
    steps += [Step(first_ns + k * gap_ns, say(chunk(f"w{k} "))) for k in range(tokens)]
    last_ns = first_ns + (tokens - 1) * gap_ns
    steps.append(Step(last_ns, say(STOP)))
    steps.append(Step(last_ns, lambda sink, now: sink.on_end(now)))
    return steps


def failure(at_ns: int, outcome: Outcome, message: str = "scripted") -> list[Step]:
    return [Step(at_ns, lambda sink, now: sink.on_failure(outcome, message, now))]


Server = Callable[[int, int], Sequence[Step]]  # (index of the request, now_ns) -> steps


class ScriptedTransport:
    """Asks `server` for each request's steps; keeps what was sent and when."""

    def __init__(self, clock: VirtualClock, server: Server) -> None:
        self.clock = clock
        self.server = server
        self.sent: list[tuple[int, int]] = []  # (index, ns)

    def send(self, head: bytes, pieces: Sequence[Piece], sink: Sink) -> "ScriptedExchange":
        index = int(head)
        now_ns = self.clock.now_ns()
        self.sent.append((index, now_ns))
        sink.on_connected(now_ns, False)
        sink.on_written(now_ns)
        exchange = ScriptedExchange(sink)
        # One timer an instant: equal timers of a loop have no order.
        for at_ns, steps in groupby(self.server(index, now_ns), key=lambda step: step.at_ns):
            exchange.plan(self.clock.loop, at_ns, list(steps))
        return exchange

    async def close(self) -> None:
        pass


class ScriptedExchange:
    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.timers: list[asyncio.TimerHandle] = []

    def plan(self, loop: asyncio.AbstractEventLoop, at_ns: int, steps: Sequence[Step]) -> None:
        def act() -> None:
            for step in steps:
                step.act(self.sink, round(loop.time() * S))

        self.timers.append(loop.call_at(at_ns / S, act))

    def cancel(self) -> None:
        for timer in self.timers:
            timer.cancel()


class ScriptedJob:
    """Requests at given times; the head is the index."""

    def __init__(self, intended_ns: Sequence[int]) -> None:
        self.times = list(intended_ns)

    def __len__(self) -> int:
        return len(self.times)

    def intended_ns(self, i: int) -> int:
        return self.times[i]

    def record(self, i: int) -> Record:
        return Record(
            index=i, request_id=f"r-{i}", media_class="c", payload=i, intended_ns=self.times[i]
        )

    def request(self, i: int, record: Record) -> tuple[bytes, Sequence[Piece]]:
        return str(i).encode(), []

    def reader(self, record: Record) -> Reader:
        return APIS["chat"].reader(record)


@dataclass
class FifoServer:
    """`width` servers in front of one queue, each request `service_ns` long, then one token."""

    service_ns: int
    width: int = 1
    free_ns: list[int] = field(default_factory=list)
    starts_ns: list[int] = field(default_factory=list)

    def __call__(self, index: int, now_ns: int) -> list[Step]:
        if not self.free_ns:
            self.free_ns = [0] * self.width
        k = min(range(self.width), key=self.free_ns.__getitem__)
        start_ns = max(now_ns, self.free_ns[k])
        self.free_ns[k] = start_ns + self.service_ns
        self.starts_ns.append(start_ns)
        return answer(self.free_ns[k])


async def run(
    clock: VirtualClock,
    intended_ns: Sequence[int],
    server: Server,
    *,
    timeout_ns: int = 1000 * S,
    max_in_flight: int | None = None,
    concurrency: int | None = None,
    stop_after_ns: int | None = None,
    during: Callable[[Generator], None] | None = None,
) -> tuple[list[Record], ScriptedTransport]:
    """Runs the generator over a script; records come back in schedule order."""
    records: list[Record] = []
    transport = ScriptedTransport(clock, server)
    limits = Limits(timeout_ns, max_in_flight, concurrency, stop_after_ns)
    generator = Generator(
        ScriptedJob(intended_ns), transport, clock, clock.now_ns(), limits, records.append
    )
    if during is not None:
        during(generator)
    await generator.run()
    return sorted(records, key=lambda r: r.index), transport
