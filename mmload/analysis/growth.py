"""Does a queue grow? stable, growing or can't tell, and how small an overload could have shown.

In: arrival instants, how long each stayed, and the backlog they make. Growing needs two signs:
the medians of ten batches in arrival order rise (Mann-Kendall; by 5 % or more, and as fast as an
overload makes them), and over the second half of the arrivals the backlog rose by more than chance
moves a stream as uneven as this one. One sign alone is common at high utilisation, because requests
within one run are not independent; both together are false in under 2 % of stable runs up to
utilisation .95 (tests/unit/test_analysis_growth.py simulates it).
Never says "stable" of a run that could not have seen a sensible overload.
"""

import math
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.queues import Steps

Verdict = Literal["stable", "growing", "cant_tell"]

BATCHES: Final = 10
# Mann-Kendall's S for ten batches: P(S >= 21) = 0.036 without a trend (exact, one-sided).
S_RISING: Final = 21
# A queue that grows shows in latency at once; a drift below this is the machine's, however steady.
LEAST_RISE: Final = 0.05
# Where 1 + x arrive while 1 is served, waits rise by x seconds a second. Machines drift by up to
# 0.003 without a queue (runs in reports/); a queue less overloaded than this is called stable.
LEAST_OVERLOAD: Final = 0.005
MOST_DRIFT: Final = 0.5  # of a stay: over a long run the slowest overload doubles it
# Of a Poisson stream's wandering: what is left where requests come and go like clockwork.
LEAST_UNEVENNESS: Final = 0.25
CAUTION: Final = 1.2
# A run is long enough for "stable" when it would have shown an overload of a quarter: 64 arrivals
# in the second half (2 / sqrt(64)), so about 128 in all.
SENSIBLE_OVERLOAD: Final = 0.25


class Growth(NamedTuple):
    """`growth_per_s`: least-squares slope of the backlog over the arrivals' window."""

    verdict: Verdict
    growth_per_s: float
    smallest_overload_seen: float | None  # relative to the arrival rate; None: no arrivals at all
    reason: str


class Window(NamedTuple):
    """The time in which requests arrive, and how many do in its second half."""

    from_ns: float
    to_ns: float
    late_arrivals: int

    @property
    def middle_ns(self) -> float:
        return (self.from_ns + self.to_ns) / 2

    @property
    def smallest_overload(self) -> float | None:
        return 2 / math.sqrt(self.late_arrivals) if self.late_arrivals else None


def window_of(arrivals_ns: NDArray[np.float64], length_ns: float = 0.0) -> Window:
    """From the run's zero for `length_ns`, or to the last arrival if that is later."""
    to_ns = max(length_ns, float(arrivals_ns.max(initial=0.0)))
    return Window(0.0, to_ns, int(np.count_nonzero(arrivals_ns >= to_ns / 2)))


def judge(
    window: Window,
    arrivals_ns: NDArray[np.float64],
    stays_ns: NDArray[np.float64],
    backlog: Steps,
) -> Growth:
    """The verdict on one queue. `arrivals_ns` and `stays_ns` belong together, in any order."""
    slope = backlog.slope_per_s(window.from_ns, window.to_ns)
    seen = window.smallest_overload
    if seen is None or len(arrivals_ns) < 2 * BATCHES:
        return Growth("cant_tell", slope, seen, f"only {len(arrivals_ns)} requests")
    order = np.argsort(arrivals_ns, kind="stable")
    medians, at_ns = batch_medians(stays_ns[order]), batch_medians(arrivals_ns[order])
    gained = backlog.at(window.to_ns) - backlog.at(window.middle_ns)
    overload = gained / window.late_arrivals
    chance = seen * unevenness(window, arrivals_ns, arrivals_ns + stays_ns)
    slower, fuller = rises(medians, at_ns), overload > chance
    figures = (
        f"backlog {gained:+d} over the last {window.late_arrivals} arrivals"
        f" ({overload:+.0%}; chance explains up to {chance:.0%})"
    )
    if slower and fuller:
        return Growth("growing", slope, seen, f"latency rises from batch to batch, and {figures}")
    if slower or fuller:
        sign = "latency rises from batch to batch, but" if slower else "latency does not rise, but"
        return Growth("cant_tell", slope, seen, f"{sign} {figures}")
    if seen > SENSIBLE_OVERLOAD:
        return Growth(
            "cant_tell", slope, seen, f"too short: an overload under {seen:.0%} would not show"
        )
    return Growth("stable", slope, seen, f"latency does not rise, and {figures}")


def unevenness(
    window: Window, arrivals_ns: NDArray[np.float64], departures_ns: NDArray[np.float64]
) -> float:
    """How much a backlog of this run wanders, over that of a Poisson stream through a server of
    exponential times: sqrt((ca2 + cd2) / 2) of the squared coefficients of variation of the gaps
    between arrivals and between departures (the diffusion of a GI/G/1 queue in heavy traffic, where
    departures are spaced as the service is), and a fifth more for what both are estimates of. 1
    where there are too few to tell."""
    squared = []
    for instants in (arrivals_ns, departures_ns):
        inside = instants[(instants >= window.from_ns) & (instants <= window.to_ns)]
        gaps = np.diff(np.sort(inside))
        if len(gaps) < 2 * BATCHES or not gaps.mean():
            return 1.0
        squared.append(float(gaps.var() / gaps.mean() ** 2))
    return max(LEAST_UNEVENNESS, CAUTION * math.sqrt(sum(squared) / 2))


def batch_medians(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Medians of ten batches of consecutive values, as equal in size as can be."""
    return np.array([np.median(batch) for batch in np.array_split(values, BATCHES)])


def rises(medians: NDArray[np.float64], at: NDArray[np.float64]) -> bool:
    """Whether the medians of batches that arrived at `at` (the same unit) rise: more steadily than
    chance has them, by more than a trifle, and as fast as an overload makes them."""
    rise, passed = (values[-3:].mean() - values[:3].mean() for values in (medians, at))
    slow = min(LEAST_OVERLOAD * passed, MOST_DRIFT * np.median(medians[:3]))
    enough = max(LEAST_RISE * np.median(medians), slow)
    return bool(mann_kendall(medians) >= S_RISING and rise > enough)


def mann_kendall(values: NDArray[np.float64]) -> int:
    """S: pairs in which the later value is higher, minus pairs in which it is lower."""
    return int(np.sign(values[None, :] - values[:, None])[np.triu_indices(len(values), 1)].sum())
