"""Processor time and memory of a process and all its children, beside all that ran on its core."""

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Snapshot:
    """`cpu_s` of each living process, user and system; memory that is resident in them all."""

    cpu_s: dict[int, float]
    resident_bytes: int  # pages shared between processes count in each
    core_busy_s: float  # of the core they are pinned to: whoever used it, or stole it from here

    def cpu_since(self, earlier: "Snapshot") -> float:
        """Seconds of processor time used since; of processes that have gone, nothing is known."""
        return sum(used - earlier.cpu_s.get(pid, 0.0) for pid, used in self.cpu_s.items())

    def others_since(self, earlier: "Snapshot") -> float:
        """Seconds of the core that somebody else used since."""
        return self.core_busy_s - earlier.core_busy_s - self.cpu_since(earlier)


def snapshot(root: int, core: int) -> Snapshot:
    """The process `root` and its descendants as they are now. Takes a millisecond or two."""
    cpu_s: dict[int, float] = {}
    resident = 0
    with contextlib.suppress(psutil.Error):  # gone meanwhile
        parent = psutil.Process(root)
        for process in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.Error), process.oneshot():
                cpu_s[process.pid] = cpu_s_of([process.pid])
                resident += process.memory_info().rss
    times = psutil.cpu_times(percpu=True)[core]
    idle_s = times.idle + times.iowait + times.guest + times.guest_nice  # guests are in user's
    return Snapshot(cpu_s, resident, sum(times) - idle_s)


def cpu_s_of(pids: Iterable[int]) -> float:
    """Seconds of processor time so far of those of the processes that live.

    Their CPU-time clocks, as clock_getcpuclockid(3) numbers them on Linux. The counters in
    /proc/PID/stat go by ticks, and charge a whole one to whoever runs at it: too much to what a
    timer wakes, which a hook's threads are.
    """
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~pid << 3) | 2)
    return total
