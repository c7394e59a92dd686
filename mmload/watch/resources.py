"""Processor time and memory of the server's processes on this host.

In: the roots of its process tree. Out: `cores` (CPU seconds a second, all processes together, since
the reading before), `rss_bytes` (their sum: memory that they share counts in each), `processes`.
The first reading has no `cores`.
"""

import contextlib
from collections.abc import Sequence
from typing import Final

import psutil

from mmload import processes
from mmload.clock import NS_PER_S, Clock
from mmload.watch.sampler import SourceFailed

PROCESSES: Final = "processes"
TICKS_A_SEARCH: Final = 5  # looking for children reads every process of the host


class Resources:
    """A `Source`."""

    name = PROCESSES

    def __init__(self, roots: Sequence[int], clock: Clock) -> None:
        self._roots = roots
        self._clock = clock
        self._pids: list[int] = []
        self._ticks = 0
        self._before: tuple[int, dict[int, float]] | None = None

    def read(self) -> dict[str, float]:
        if self._ticks % TICKS_A_SEARCH == 0:
            self._pids = processes.tree(self._roots)
        self._ticks += 1
        used, now_ns = processes.cpu_s(self._pids), self._clock.now_ns()
        if not used:
            raise SourceFailed("its processes are gone", final=True)
        values = {"rss_bytes": float(_rss_bytes(self._pids)), "processes": float(len(used))}
        if self._before is not None:
            then_ns, before = self._before
            worked_s = sum(used[pid] - before[pid] for pid in used if pid in before)
            if now_ns > then_ns:
                values["cores"] = round(worked_s * NS_PER_S / (now_ns - then_ns), 4)
        self._before = now_ns, used
        return values

    def close(self) -> None: ...


def _rss_bytes(pids: Sequence[int]) -> int:
    total = 0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            total += psutil.Process(pid).memory_info().rss
    return total
