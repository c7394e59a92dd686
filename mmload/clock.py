"""Time for the client side: integer nanoseconds on one monotonic clock.

Nothing else in the generator reads time, so that a test can put virtual time under it
(`tests/virtual/loop.py`). CLOCK_MONOTONIC is shared by all processes of a host, which is why a
server's spans and the client's records can be laid on one line without an offset.
"""

import time
from typing import Protocol

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


class Clock(Protocol):
    """Reads monotonic time; an object, so that tests can pass virtual time."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary fixed origin."""
        ...


class MonotonicClock:
    """The host's CLOCK_MONOTONIC."""

    now_ns = staticmethod(time.monotonic_ns)


def pause(seconds: float) -> None:
    """Blocks the thread. Not for the loop that sends."""
    time.sleep(seconds)


def wall_ns() -> int:
    """Wall-clock nanoseconds since the epoch: to date a run, never to measure a duration."""
    return time.time_ns()
