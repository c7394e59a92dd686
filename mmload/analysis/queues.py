"""Backlog over time: how many requests are in the server, or in one of its stages, at each instant.

In: start and end instants (ns) of stays, as arrays. Out: a step function, its greatest level, its
integral, and a reduced copy for charts. A stay is half open: at the instant at which one request
leaves and the next enters, the level counts one of them. Whether the backlog grows is `growth`'s.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

CHART_POINTS: Final = 600
_Ints = NDArray[np.int64]


@dataclass(slots=True)
class Steps:
    """`level[i]` from `time_ns[i]` until the next instant; 0 before the first. Times ascend."""

    time_ns: NDArray[np.float64]
    level: NDArray[np.int64]

    @classmethod
    def of(cls, start_ns: NDArray[np.float64], end_ns: NDArray[np.float64]) -> "Steps":
        """The number of stays open at a time."""
        time = np.concatenate([start_ns, end_ns])
        change = np.repeat(np.array([1, -1], np.int8), len(start_ns))
        order = np.argsort(time, kind="stable")
        time, level = time[order], np.cumsum(change[order], dtype=np.int64)
        last = np.append(time[1:] != time[:-1], True)[: len(time)]  # net effect of an instant
        return cls(time[last], level[last])

    @property
    def max(self) -> int:
        return int(self.level.max()) if len(self.level) else 0

    def at(self, time_ns: float) -> int:
        """The level right after an instant."""
        i = int(np.searchsorted(self.time_ns, time_ns, side="right")) - 1
        return int(self.level[i]) if i >= 0 else 0

    def integral(self) -> float:
        """Stays times nanoseconds: equals the sum of the lengths of all stays."""
        return float(np.dot(self.level[:-1], np.diff(self.time_ns)))

    def busy_ns(self) -> float:
        """For how long at least one stay was open."""
        return float(np.dot(self.level[:-1] > 0, np.diff(self.time_ns)))

    def slope_per_s(self, from_ns: float, to_ns: float) -> float:
        """Least-squares slope of the level against time over a window, exact for a step function.

        For f on [0, T] it is 12 / T**3 times the integral of (t - T/2) f(t).
        """
        span = to_ns - from_ns
        if span <= 0 or not len(self.time_ns):
            return 0.0
        edges = np.clip(np.append(self.time_ns, to_ns), from_ns, to_ns) - (from_ns + to_ns) / 2
        moment = np.dot(self.level, np.diff(edges**2) / 2)
        return float(12 * moment / span**3 * 1e9)

    def thinned(self, points: int = CHART_POINTS) -> "Steps":
        """At most `points` steps: of each stretch of time its first, lowest, highest and last."""
        n = len(self.time_ns)
        if n <= points:
            return self
        edges = np.linspace(self.time_ns[0], self.time_ns[-1], points // 4 + 1)[:-1]
        first = np.unique(np.searchsorted(self.time_ns, edges))
        last = np.append(first[1:], n) - 1
        kept = [first, last]
        for a, b in zip(first, last, strict=True):
            stretch = self.level[a : b + 1]
            kept.append(np.array([a + stretch.argmin(), a + stretch.argmax()]))
        chosen = np.unique(np.concatenate(kept))
        return Steps(self.time_ns[chosen], self.level[chosen])


def union(start: _Ints, end: _Ints) -> tuple[_Ints, _Ints]:
    """The union of some stretches, as ascending ones that do not touch: their starts and ends."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.concatenate([[True], start[1:] > reach[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return start[opens], reach[closes]
