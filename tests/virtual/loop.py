"""Virtual time under asyncio: an event loop whose clock is an integer and jumps to the next timer.

    def test_something() -> None:
        async def body(clock: VirtualClock) -> int:
            await asyncio.sleep(100)        # returns at once, 100 s later
            return clock.now_ns()
        assert run_virtual(body) == 100_000_000_000

Rules. Time moves only when no callback is ready and no file descriptor is readable or writable;
then it jumps to the earliest timer. Work given to `loop.run_in_executor` (so `asyncio.to_thread`
and `mmload.hook.pools.submit` too) really runs in its thread and takes no virtual time: the loop
waits for it before it lets time pass. A loop with nothing ready, no timer and no thread at work can
never go on, and says so after `PATIENCE_S` real seconds. `loop.stall(ns)` moves the clock within a
callback: a frozen event loop, or work on the loop's own thread that takes so long. Errors that
nobody awaited (asyncio would only log them) are raised by `run_virtual` at its end.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

from mmload.clock import NS_PER_S

T = TypeVar("T")

# Timers are floats of seconds in asyncio. Rounding one to the nanosecond errs by at most 0.5 ns, so
# a timer is due within 0.75 ns of the clock, and one a whole nanosecond later is not.
_RESOLUTION_S = 0.75e-9

PATIENCE_S = 2.0


class _JumpingSelector(selectors.DefaultSelector):
    """Looks for ready descriptors without waiting; instead of waiting, moves its loop's clock."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.loop.threads_at_work:
            return super().select(None)  # its end wakes the loop; virtual time stands still
        if timeout is None:  # perhaps a thread that the loop does not know of will wake it
            ready = super().select(PATIENCE_S)
            if not ready:
                raise RuntimeError("virtual time: nothing is ready and no timer is set: a deadlock")
            return ready
        self.loop.stall(max(1, round(timeout * NS_PER_S)))
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module. `now_ns` is the time; `start_ns` where it starts."""

    def __init__(self, start_ns: int = 0) -> None:
        selector = _JumpingSelector()
        selector.loop = self
        self.now_ns = start_ns
        self.threads_at_work = 0
        self.errors: list[dict[str, Any]] = []
        super().__init__(selector)
        self._clock_resolution = _RESOLUTION_S

    def time(self) -> float:
        return self.now_ns / NS_PER_S

    def stall(self, ns: int) -> None:
        """Lets `ns` pass without running anything."""
        if ns < 0:
            raise ValueError(f"time cannot go back by {-ns} ns")
        self.now_ns += ns

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self.threads_at_work += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: asyncio.Future[Any]) -> None:
        self.threads_at_work -= 1

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)


class VirtualClock:
    """A `mmload.clock.Clock` that reads a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop

    def now_ns(self) -> int:
        return self.loop.now_ns


def run_virtual(body: Callable[[VirtualClock], Coroutine[Any, Any, T]], start_ns: int = 0) -> T:
    """Runs `body(clock)` on a fresh virtual loop to its end and returns what it returns."""
    loop = VirtualLoop(start_ns)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(body(VirtualClock(loop)))
    for context in loop.errors:
        raise RuntimeError(f"unawaited: {context['message']}") from context.get("exception")
    return result
