"""One request under way: the transport's sink, writing into the record until it is complete.

Its limits are watched by a single timer, set to the nearest deadline. With retries, an attempt that
failed in a way worth repeating is followed by the same bytes again; the record then lists every
attempt, `sent_ns` stays that of the first, and its other stamps are those of the last.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from mmload.clock import NS_PER_S
from mmload.load.limits import Deadline, Limits, next_deadline, passed, stage_of
from mmload.load.payloads import Piece
from mmload.load.retry import wait_ns, worth_retrying
from mmload.load.transport import Exchange, Headers, Transport
from mmload.records import Attempt, Outcome, Record
from mmload.wire.base import Reader


class Pilot(Protocol):
    """What a flight needs of the generator."""

    @property
    def origin_ns(self) -> int: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def transport(self) -> Transport: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def first_check_s(self) -> float:
        """After which a request just sent has to be looked at."""
        ...

    def now_ns(self) -> int:
        """Nanoseconds since the run's origin."""
        ...

    def prepare(self, i: int, record: Record) -> tuple[bytes, Sequence[Piece], Reader]:
        """Head, body and a new reader of request `i`: the same bytes each time."""
        ...

    def ended(self, flight: "Flight") -> None: ...


class Flight:
    """`send()` it once; it calls `Pilot.ended` once, when its record is complete."""

    __slots__ = (
        "_attempt_ns",
        "_exchange",
        "_headers",
        "_i",
        "_origin_ns",
        "_pilot",
        "_reader",
        "_timer",
        "record",
    )

    def __init__(self, pilot: Pilot, i: int, record: Record) -> None:
        self.record = record
        self._pilot = pilot
        self._origin_ns = pilot.origin_ns
        self._i = i
        self._reader: Reader
        self._exchange: Exchange | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._attempt_ns: int | None = None  # None while waiting for the next attempt
        self._headers: Headers = {}

    def send(self) -> None:
        """Lets the request go: everything is ready before the stamp."""
        pilot, record = self._pilot, self.record
        head, pieces, self._reader = pilot.prepare(self._i, record)
        if record.sent_ns is None:
            self._timer = pilot.loop.call_later(pilot.first_check_s, self._look_at_limits)
            self._attempt_ns = record.sent_ns = pilot.now_ns()
        else:
            self._attempt_ns = pilot.now_ns()
            self._watch(self._attempt_ns)
        self._exchange = pilot.transport.send(head, pieces, self)

    def cut_off(self, now_ns: int) -> None:
        """The run was stopped."""
        self._give_up(Outcome.cut_off, "the run was stopped while this was under way", now_ns)
        self._end(now_ns)

    # -- the transport's sink ------------------------------------------------------------------

    def on_connected(self, now_ns: int, reused: bool) -> None:
        self.record.connected_ns = now_ns - self._origin_ns
        self.record.reused_connection = reused

    def on_written(self, now_ns: int) -> None:
        self.record.send_end_ns = now_ns - self._origin_ns

    def on_head(self, status: int, headers: Headers, now_ns: int) -> None:
        self.record.headers_ns = now_ns - self._origin_ns
        self._headers = headers
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        self._reader.head(status, content_type)

    def on_body(self, data: bytes, now_ns: int) -> None:
        self._reader.feed(data, now_ns - self._origin_ns)

    def on_end(self, now_ns: int) -> None:
        self._reader.close()
        self._over(now_ns - self._origin_ns)

    def on_failure(self, outcome: Outcome, message: str, now_ns: int) -> None:
        self._fail(outcome, message)
        self._over(now_ns - self._origin_ns)

    # -- limits ----------------------------------------------------------------------------------

    def _look_at_limits(self) -> None:
        now_ns = self._pilot.now_ns()
        deadline = next_deadline(self._pilot.limits, self.record, self._attempt_ns)
        if now_ns < deadline.at_ns:  # the one that was set is met, or the timer was early
            self._watch(now_ns)
            return
        self._time_out(deadline, now_ns)

    def _watch(self, now_ns: int) -> None:
        deadline = next_deadline(self._pilot.limits, self.record, self._attempt_ns)
        delay_s = max(0, deadline.at_ns - now_ns) / NS_PER_S
        self._set_timer(self._pilot.loop.call_later(delay_s, self._look_at_limits))

    def _time_out(self, deadline: Deadline, now_ns: int) -> None:
        self._give_up(Outcome.timeout, passed(deadline, stage_of(self.record)), now_ns)
        if deadline.flag == "--connect-timeout":
            self._over(now_ns)
        else:
            self._end(now_ns)

    # -- the end of an attempt, and of the request -----------------------------------------------

    def _give_up(self, outcome: Outcome, message: str, now_ns: int) -> None:
        if self._exchange is not None:
            self._exchange.cancel()
        if self._attempt_ns is None:  # no attempt is under way: the last one's failure is listed
            self.record.outcome, self.record.message = outcome, f"{message}, before a retry"
            return
        self._fail(outcome, message)

    def _fail(self, outcome: Outcome, message: str) -> None:
        record = self.record
        self._reader.close()  # keeps the partial answer; its verdict gives way to ours,
        if record.outcome is not Outcome.stream_error:  # unless the server has said what failed
            record.outcome, record.message = outcome, message

    def _over(self, at_ns: int) -> None:
        """An attempt has ended: the last one, or another follows."""
        record, limits = self.record, self._pilot.limits
        failed = len(record.attempts) + 1
        if failed <= limits.retries and worth_retrying(record):
            pause_ns = wait_ns(failed, self._headers)
            if at_ns + pause_ns < next_deadline(limits, record, None).at_ns:
                self._list_attempt(at_ns)
                self._forget_attempt()
                self._set_timer(self._pilot.loop.call_later(pause_ns / NS_PER_S, self.send))
                return
        self._end(at_ns)

    def _list_attempt(self, at_ns: int) -> None:
        record = self.record
        assert self._attempt_ns is not None
        record.attempts.append(
            Attempt(
                sent_ns=self._attempt_ns,
                closed_ns=at_ns,
                outcome=record.outcome,
                status=record.status,
                message=record.message,
            )
        )

    def _forget_attempt(self) -> None:
        """What the record says of the attempt that failed; it had no output."""
        record = self.record
        record.connected_ns = record.send_end_ns = None
        record.headers_ns = record.first_byte_ns = record.status = None
        record.bytes_received = 0
        record.reused_connection = False
        record.outcome, record.message, record.answer = Outcome.unsent, "", ""
        self._attempt_ns = self._exchange = None
        self._headers = {}

    def _end(self, at_ns: int) -> None:
        if self.record.attempts and self._attempt_ns is not None:
            self._list_attempt(at_ns)
        self.record.closed_ns = at_ns
        self._set_timer(None)
        self._pilot.ended(self)

    def _set_timer(self, timer: asyncio.TimerHandle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer
