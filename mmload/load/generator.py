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
from mmload.load.flight import Flight
from mmload.load.limits import Limits
from mmload.load.payloads import Piece
from mmload.load.transport import Transport
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
    _flights: set[Flight] = field(default_factory=set)
    _done: asyncio.Event = field(default_factory=asyncio.Event)
    _alarm: Alarm = field(init=False)
    _stopped: bool = False
    loop: asyncio.AbstractEventLoop = field(init=False)
    first_check_s: float = field(init=False)

    async def run(self) -> None:
        """Sends everything, waits for the last answer, emits one record a request."""
        self.loop = asyncio.get_running_loop()
        self.first_check_s = self.limits.shortest_ns / NS_PER_S
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
            due_ns = job.intended_ns(self._next)
            if due_ns > self.now_ns():
                # An alarm may be early: then this asks again, and passes through the selector each
                # time, so that reads are not held up.
                self._alarm.set(self.origin_ns + due_ns)
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
        flight = Flight(self, i, record)
        self._flights.add(flight)
        flight.send()

    def prepare(self, i: int, record: Record) -> tuple[bytes, Sequence[Piece], Reader]:
        """What a flight sends: the same bytes at every attempt, and a new reader."""
        head, pieces = self.job.request(i, record)
        return head, pieces, self.job.reader(record)

    def ended(self, flight: Flight) -> None:
        """A request is over: its record is complete."""
        self._flights.discard(flight)
        self.tally.in_flight -= 1
        if flight.record.outcome is Outcome.ok:
            self.tally.ok += 1
        else:
            self.tally.failed += 1
        self.emit(flight.record)
        if self.limits.concurrency is not None and not self._stopped:
            self.loop.call_soon(self._fill)
        else:
            self._finish_if_idle()

    def _finish_if_idle(self) -> None:
        if self._next >= len(self.job) and not self._flights:
            self._done.set()
