"""The hot loop: schedule x payloads x transport -> records.

Open loop: request i is sent at its intended time whatever has happened to the others. Nothing here
waits for a response, encodes, hashes or writes to disk; records leave through `emit`, which must
not block. A closed loop exists beside it: a fixed number under way (`concurrency`), where the next
is intended when one ends.

All record times are relative to `origin_ns`. The loop's time is the clock's (a virtual clock comes
with its own loop), so that a test can script every nanosecond.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mmload.clock import NS_PER_S, Clock
from mmload.load.alarm import Alarm, make_alarm
from mmload.load.payloads import Piece
from mmload.load.transport import Exchange, Headers, Transport
from mmload.records import Outcome, Record
from mmload.wire.base import Reader

Emit = Callable[[Record], None]


class Job(Protocol):
    """What the generator asks for each request. `i` counts this generator's own requests."""

    def __len__(self) -> int: ...

    def intended_ns(self, i: int) -> int:
        """When to send it, from the origin; never falls. Not asked in a closed loop."""
        ...

    def record(self, i: int) -> Record:
        """A new record with its identity and `intended_ns` filled in."""
        ...

    def request(self, i: int, record: Record) -> tuple[bytes, Sequence[Piece]]:
        """Head and body pieces, ready to write."""
        ...

    def reader(self, record: Record) -> Reader: ...


@dataclass(slots=True)
class Tally:
    """Running counts, for the live view."""

    sent: int = 0
    ok: int = 0
    failed: int = 0
    dropped: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a request and the run."""

    timeout_ns: int
    max_in_flight: int | None = None  # open loop: above it, requests are dropped, never delayed
    concurrency: int | None = None  # closed loop: requests under way; None: open loop
    stop_after_ns: int | None = None  # closed loop: no new request after this


@dataclass(slots=True)
class Generator:
    """Runs one job once. `run()` returns when every request has ended or `stop()` was called."""

    job: Job
    transport: Transport
    clock: Clock
    origin_ns: int
    limits: Limits
    emit: Emit
    tally: Tally = field(default_factory=Tally)
    _next: int = 0
    _flights: set["_Flight"] = field(default_factory=set)
    _done: asyncio.Event = field(default_factory=asyncio.Event)
    _alarm: Alarm = field(init=False)
    _stopped: bool = False
    _loop: asyncio.AbstractEventLoop = field(init=False)

    async def run(self) -> None:
        """Sends everything, waits for the last answer, emits one record a request."""
        self._loop = asyncio.get_running_loop()
        closed = self.limits.concurrency is not None
        self._alarm = make_alarm(self.clock, self._fill if closed else self._fire)
        try:
            self._alarm.set(self.origin_ns)
            await self._done.wait()
        finally:
            self._alarm.close()

    def stop(self) -> None:
        """Ends the run now: what is under way is cut off, what was not sent is unsent."""
        if self._stopped or self._done.is_set():
            return
        self._stopped = True
        self._alarm.cancel()
        now_ns = self.now_ns()
        for flight in list(self._flights):
            flight.cut_off(now_ns)
        if self.limits.stop_after_ns is not None:
            self._next = len(self.job)  # bounded by time: nobody asked for the rest of the job
        while self._next < len(self.job):
            record = self.job.record(self._next)
            self._next += 1
            record.outcome = Outcome.unsent
            self.emit(record)
        self._finish_if_idle()

    def now_ns(self) -> int:
        """Nanoseconds since the run's origin."""
        return self.clock.now_ns() - self.origin_ns

    # -- open loop -----------------------------------------------------------------------------

    def _fire(self) -> None:
        """Sends all that is due, then sleeps until the next intended time, an absolute deadline."""
        job = self.job
        while self._next < len(job):
            wait_ns = job.intended_ns(self._next) - self.now_ns()
            if wait_ns > 0:
                # An alarm may be early: then this asks again, and passes through the selector each
                # time, so that reads are not held up.
                self._alarm.set(self.origin_ns + job.intended_ns(self._next))
                return
            record = job.record(self._next)
            self._next += 1
            cap = self.limits.max_in_flight
            if cap is not None and self.tally.in_flight >= cap:
                record.outcome = Outcome.dropped
                record.message = f"{cap} requests were in flight (--max-in-flight {cap})"
                self.tally.dropped += 1
                self.emit(record)
            else:
                self._send(self._next - 1, record)
        self._finish_if_idle()

    # -- closed loop ---------------------------------------------------------------------------

    def _fill(self) -> None:
        """Keeps `concurrency` requests under way; each is intended at the moment it can be sent."""
        assert self.limits.concurrency is not None
        end_ns = self.limits.stop_after_ns
        while self._next < len(self.job) and self.tally.in_flight < self.limits.concurrency:
            now_ns = self.now_ns()
            if end_ns is not None and now_ns >= end_ns:
                self._next = len(self.job)
                break
            record = self.job.record(self._next)
            record.intended_ns = now_ns
            self._next += 1
            self._send(self._next - 1, record)
        self._finish_if_idle()

    # -- both ----------------------------------------------------------------------------------

    def _send(self, i: int, record: Record) -> None:
        self.tally.sent += 1
        self.tally.in_flight += 1
        head, pieces = self.job.request(i, record)
        flight = _Flight(self, record, self.job.reader(record))
        self._flights.add(flight)
        flight.deadline = self._loop.call_later(self.limits.timeout_ns / NS_PER_S, flight.time_out)
        record.sent_ns = self.now_ns()
        flight.exchange = self.transport.send(head, pieces, flight)

    def ended(self, flight: "_Flight") -> None:
        """A request is over: its record is complete."""
        self._flights.discard(flight)
        self.tally.in_flight -= 1
        if flight.record.outcome is Outcome.ok:
            self.tally.ok += 1
        else:
            self.tally.failed += 1
        self.emit(flight.record)
        if self.limits.concurrency is not None and not self._stopped:
            self._loop.call_soon(self._fill)
        else:
            self._finish_if_idle()

    def _finish_if_idle(self) -> None:
        if self._next >= len(self.job) and not self._flights:
            self._done.set()


class _Flight:
    """One request under way: the transport's sink, writing into the record."""

    __slots__ = ("_generator", "_reader", "deadline", "exchange", "record")

    def __init__(self, generator: Generator, record: Record, reader: Reader) -> None:
        self._generator = generator
        self._reader = reader
        self.record = record
        self.exchange: Exchange | None = None
        self.deadline: asyncio.TimerHandle | None = None

    def on_connected(self, now_ns: int, reused: bool) -> None:
        self.record.connected_ns = now_ns - self._generator.origin_ns
        self.record.reused_connection = reused

    def on_written(self, now_ns: int) -> None:
        self.record.send_end_ns = now_ns - self._generator.origin_ns

    def on_head(self, status: int, headers: Headers, now_ns: int) -> None:
        self.record.headers_ns = now_ns - self._generator.origin_ns
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        self._reader.head(status, content_type)

    def on_body(self, data: bytes, now_ns: int) -> None:
        self._reader.feed(data, now_ns - self._generator.origin_ns)

    def on_end(self, now_ns: int) -> None:
        self._reader.close()
        self._end(now_ns - self._generator.origin_ns)

    def on_failure(self, outcome: Outcome, message: str, now_ns: int) -> None:
        self._fail(outcome, message, now_ns - self._generator.origin_ns)

    def time_out(self) -> None:
        """The total time limit has passed, counted from the send."""
        generator = self._generator
        if self.exchange is not None:
            self.exchange.cancel()
        seconds = generator.limits.timeout_ns / NS_PER_S
        missing = "output" if self.record.first_output_ns is None else "end of the answer"
        self._fail(Outcome.timeout, f"no {missing} within {seconds:g} s", generator.now_ns())

    def cut_off(self, now_ns: int) -> None:
        if self.exchange is not None:
            self.exchange.cancel()
        self._fail(Outcome.cut_off, "the run was stopped while this was under way", now_ns)

    def _fail(self, outcome: Outcome, message: str, at_ns: int) -> None:
        self._reader.close()  # keeps the partial answer; its verdict gives way to ours
        self.record.outcome, self.record.message = outcome, message
        self._end(at_ns)

    def _end(self, at_ns: int) -> None:
        self.record.closed_ns = at_ns
        if self.deadline is not None:
            self.deadline.cancel()
        self._generator.ended(self)
