"""What bounds a request and the run, and which bound a request has passed. Pure.

Times are nanoseconds since the run's origin. The total and the first-token limit count from the
request's (first) send, so the waits of retries are in them; the connect limit from each attempt's.
"""

from dataclasses import dataclass

from mmload.clock import NS_PER_S
from mmload.records import Record


@dataclass(frozen=True, slots=True)
class Limits:
    """As the user set them; None: no such limit."""

    timeout_ns: int
    max_in_flight: int | None = None  # open loop: above it, requests are dropped, never delayed
    concurrency: int | None = None  # closed loop: requests under way; None: open loop
    stop_after_ns: int | None = None  # closed loop: no new request after this
    connect_timeout_ns: int | None = None
    first_token_timeout_ns: int | None = None
    retries: int = 0  # attempts after the first

    @property
    def shortest_ns(self) -> int:
        """After which a request just sent has to be looked at first."""
        given = (self.timeout_ns, self.connect_timeout_ns, self.first_token_timeout_ns)
        return min(ns for ns in given if ns is not None)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment at which a request is given up, and the flag that says so."""

    at_ns: int
    flag: str
    limit_ns: int


def next_deadline(limits: Limits, record: Record, attempt_ns: int | None) -> Deadline:
    """The earliest deadline that still holds for a request that was sent.

    `attempt_ns` is when the attempt under way was sent; None while it waits for its next one.
    """
    assert record.sent_ns is not None
    first = Deadline(record.sent_ns + limits.timeout_ns, "--timeout", limits.timeout_ns)
    if limits.first_token_timeout_ns is not None and record.first_output_ns is None:
        limit_ns = limits.first_token_timeout_ns
        if record.sent_ns + limit_ns < first.at_ns:
            first = Deadline(record.sent_ns + limit_ns, "--first-token-timeout", limit_ns)
    connecting = attempt_ns is not None and record.connected_ns is None
    if limits.connect_timeout_ns is not None and connecting:
        assert attempt_ns is not None
        limit_ns = limits.connect_timeout_ns
        if attempt_ns + limit_ns < first.at_ns:
            first = Deadline(attempt_ns + limit_ns, "--connect-timeout", limit_ns)
    return first


def stage_of(record: Record) -> str:
    """What a request under way is doing, in words."""
    if record.first_output_ns is not None:
        return "waiting for the end of the answer"
    if record.headers_ns is not None:
        return "waiting for output"
    if record.send_end_ns is not None:
        return "waiting for the response head"
    return "connecting" if record.connected_ns is None else "sending the request"


def passed(deadline: Deadline, stage: str) -> str:
    """The message of a request that was given up."""
    return f"{deadline.flag} {deadline.limit_ns / NS_PER_S:g} s passed while {stage}"
