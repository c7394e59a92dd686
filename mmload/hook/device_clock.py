"""When work on a GPU really ran, on the host's clock, without ever waiting for the GPU.

A CUDA event is stamped by the GPU when the stream gets to it; what a launch takes on the host says
nothing of it. `Device.begin` and `Stretch.end` put two events into the current stream; `poll`,
called now and then, hands over the stretches that are over. The GPU's stamps are relative to each
other: they are put on the host's clock by the latest bound that launches give (nothing begins
before it was launched), which is exact as soon as one launch met an idle GPU. Bounds are found anew
every minute, since clocks drift and `elapsed_time` has seven digits. Stdlib only.
"""

import collections
from collections.abc import Callable
from typing import Any, Final

from mmload.hook import spans

_EPOCH_NS: Final = 60_000_000_000
_PENDING: Final = 1024  # stretches waiting for the GPU; more are dropped

Done = Callable[[int, int], object]  # start and end, monotonic nanoseconds


class Device:
    """The clock of one GPU, as the current stream shows it. `event` makes a timing event."""

    def __init__(self, event: Callable[[], Any]) -> None:
        self._event = event
        self._epoch: _Epoch | None = None
        self._pending: collections.deque[Stretch] = collections.deque(maxlen=_PENDING)

    def begin(self) -> "Stretch":
        launched_ns = spans.now_ns()
        epoch = self._epoch
        if epoch is None or launched_ns - epoch.since_ns > _EPOCH_NS:
            epoch = self._epoch = _Epoch(self._stamp(), launched_ns)
        return Stretch(self, epoch, self._stamp(), launched_ns)

    def poll(self) -> None:
        """Reports the stretches that have ended, oldest first."""
        while self._pending and self._pending[0].is_over():
            self._pending.popleft().report()

    def _stamp(self) -> Any:
        event = self._event()
        event.record()
        return event

    def _end(self, stretch: "Stretch") -> Any:
        self._pending.append(stretch)
        return self._stamp()


class _Epoch:
    """A zero of the GPU's clock, and the latest moment of the host's that it can have been."""

    __slots__ = ("zero", "since_ns", "zero_ns")

    def __init__(self, zero: Any, launched_ns: int) -> None:
        self.zero = zero
        self.since_ns = launched_ns
        self.zero_ns = launched_ns


class Stretch:
    """Work between two events of a stream."""

    __slots__ = ("_device", "_epoch", "_first", "_last", "_launched_ns", "_done")

    def __init__(self, device: Device, epoch: _Epoch, first: Any, launched_ns: int) -> None:
        self._device = device
        self._epoch = epoch
        self._first = first
        self._launched_ns = launched_ns

    def end(self, done: Done) -> None:
        """All of the work has been launched; `done` is called by a later `poll`."""
        self._done = done
        self._last = self._device._end(self)

    def is_over(self) -> bool:
        return bool(self._last.query())

    def report(self) -> None:
        epoch = self._epoch
        first_ns = round(epoch.zero.elapsed_time(self._first) * 1e6)  # milliseconds
        last_ns = round(epoch.zero.elapsed_time(self._last) * 1e6)
        epoch.zero_ns = max(epoch.zero_ns, self._launched_ns - first_ns)
        self._done(epoch.zero_ns + first_ns, epoch.zero_ns + last_ns)
