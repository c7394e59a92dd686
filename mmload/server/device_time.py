"""When a device did a piece of work: marks that cost nothing now, and are read afterwards.

    timeline.start()                 # before the first piece of a request
    mark = timeline.mark()           # between two pieces; never waits
    timeline.wait(mark)              # until the device is past it
    timeline.ns(mark)                # CLOCK_MONOTONIC

On a CPU torch computes before it returns, so the host's clock is the device's. On CUDA a call only
queues work: a mark is an event on the stream, and its time is the start's plus what the device
measured between the two events. The start is taken while the device is idle, so the error is the
time of one launch, some microseconds; it does not grow with time, as every request starts anew.
"""

from typing import Any, Protocol

from mmload.clock import NS_PER_MS, Clock


class Timeline(Protocol):
    """`timed_by` is for people: what the stamps are."""

    timed_by: str

    def start(self) -> None: ...

    def mark(self) -> Any: ...

    def wait(self, mark: Any) -> None:
        """Blocks this thread until the device is past the mark, and no longer."""

    def ns(self, mark: Any) -> int: ...


class HostTimeline:
    """For a CPU: the mark is the time."""

    timed_by = "host clock: the CPU computes before the call returns"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def start(self) -> None:
        """Nothing to relate."""

    def mark(self) -> int:
        return self._clock.now_ns()

    def wait(self, mark: int) -> None:
        """The work was done before the mark was made."""

    def ns(self, mark: int) -> int:
        return mark


class CudaTimeline:
    """For a CUDA device: events on the current stream."""

    timed_by = "CUDA events"

    def __init__(self, cuda: Any, clock: Clock) -> None:
        """`cuda`: the module torch.cuda."""
        self._cuda = cuda
        self._clock = clock
        self._first: Any = None
        self._first_ns = 0

    def start(self) -> None:
        self._cuda.current_stream().synchronize()  # a step that the last answer left unread
        self._first = self.mark()
        self._first_ns = self._clock.now_ns()

    def mark(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def wait(self, mark: Any) -> None:
        mark.synchronize()  # this event only; work queued behind it goes on

    def ns(self, mark: Any) -> int:
        since_ms: float = self._first.elapsed_time(mark)
        return self._first_ns + round(since_ms * NS_PER_MS)
