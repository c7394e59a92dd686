"""Who watches a run of a sweep: the CPU time of its server, and what is passed on to the user.

CPU use is the CPU time of the server's processes over the wall time, both from the start of the
load to the last look within the time in which requests arrive: cores in use, on average. A process
that ends in between takes its share with it.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from mmload.clock import NS_PER_S, MonotonicClock
from mmload.load.workers import Tick
from mmload.run import Watcher

LEAST_S: Final = 1.0  # below, a look says little


class CpuWatch:
    """A watcher around another one. `pids` gives the server's processes, none if not ours."""

    def __init__(self, inner: Watcher, pids: Callable[[], Sequence[int]]) -> None:
        self._inner = inner
        self._pids = pids
        self._start: tuple[int, dict[int, float]] | None = None
        self._last: tuple[int, dict[int, float]] | None = None
        self._end_ns = 0

    @property
    def cores(self) -> float | None:
        if self._start is None or self._last is None:
            return None
        (from_ns, before), (to_ns, after) = self._start, self._last
        wall_s = (to_ns - from_ns) / NS_PER_S
        if wall_s < LEAST_S or not after:
            return None
        used_s = sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())
        return used_s / wall_s

    def say(self, text: str) -> None:
        self._inner.say(text)

    def started(self, planned: int, schedule_s: float) -> None:
        self._inner.started(planned, schedule_s)
        self._start = (MonotonicClock.now_ns(), cpu_s(self._pids()))
        self._end_ns = self._start[0] + round(schedule_s * NS_PER_S)

    def tick(self, tick: Tick) -> None:
        self._inner.tick(tick)

    def refresh(self) -> None:
        self._inner.refresh()
        now_ns = MonotonicClock.now_ns()
        if self._start is not None and now_ns <= self._end_ns:
            self._last = (now_ns, cpu_s(self._pids()))


def cpu_s(pids: Sequence[int]) -> dict[int, float]:
    """Seconds of CPU time that each process has used; those that are gone are left out."""
    import psutil

    used = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            used[pid] = times.user + times.system
    return used
