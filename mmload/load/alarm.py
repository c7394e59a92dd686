"""Wakes the loop at an absolute instant, to some tens of microseconds where the system can.

An event loop's own timers are a millisecond coarse (epoll's timeout and libuv's clock are), which
would be half a millisecond of lag in every request. On Linux a timerfd on CLOCK_MONOTONIC is exact
and costs nothing while it waits; spinning instead would take a core from the server under test.
Elsewhere, and on virtual time, the loop's own timer serves.
"""

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

from mmload.clock import NS_PER_S, Clock, MonotonicClock

_CLOCK_MONOTONIC: Final = 1
_TFD_TIMER_ABSTIME: Final = 1
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC if hasattr(os, "O_CLOEXEC") else 0
_ITIMERSPEC: Final = struct.Struct("=qqqq")  # interval s, ns; value s, ns (64-bit time)


class Alarm(Protocol):
    """One wake-up at a time."""

    def set(self, at_ns: int) -> None:
        """Calls back at this clock time, or at once if it has passed; replaces an earlier one."""

    def cancel(self) -> None:
        """No call comes after this."""

    def close(self) -> None: ...


class LoopAlarm:
    """By the loop's own timer: may be early or late by its resolution."""

    def __init__(self, clock: Clock, callback: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at_ns: int) -> None:
        self.cancel()
        wait_ns = max(0, at_ns - self._clock.now_ns())
        self._handle = self._loop.call_later(wait_ns / NS_PER_S, self._callback)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def close(self) -> None:
        self.cancel()


class TimerfdAlarm:
    """By a timerfd (Linux). Raises OSError where there is none."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self._libc = _libc()
        self._fd: int = self._libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._ring)

    def set(self, at_ns: int) -> None:
        self._set(max(1, at_ns))  # 0 would disarm

    def cancel(self) -> None:
        self._set(0)

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _set(self, at_ns: int) -> None:
        if self._fd >= 0:
            spec = _ITIMERSPEC.pack(0, 0, *divmod(at_ns, NS_PER_S))
            self._libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, spec, None)

    def _ring(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # set again, or cancelled, since it rang
            return
        self._callback()


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "timerfd_create"):
        raise OSError("no timerfd")
    return libc


def make_alarm(clock: Clock, callback: Callable[[], object]) -> Alarm:
    """The most exact alarm for this clock on this system, on the running loop."""
    if isinstance(clock, MonotonicClock) and sys.platform == "linux" and sys.maxsize > 2**32:
        try:
            return TimerfdAlarm(callback)
        except OSError:
            pass
    return LoopAlarm(clock, callback)
