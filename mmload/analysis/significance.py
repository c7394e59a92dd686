"""Do two sides differ? Medians of runs with exact intervals, an exact test, Holm's correction.

In: one number a run (a percentile of its requests, a rate) for each side. Out: `Comparison`s.
The run is the unit. Requests within one run wait for one another, so that thousands of them hold
far less than thousands of observations: a test over requests finds differences between any two runs
of the same server.

Why a rank test (Mann-Whitney), exact: nothing is assumed of how a percentile varies from run to
run, one run that the machine disturbed cannot carry the result, and the outcome is the same in
milliseconds and on a log scale. With few runs the asymptotic forms are wrong, so the distribution
is counted over all ways to deal the runs to the sides, ties included. For runs made in pairs, one
of each side in turn, the exact signed-rank test takes out what the two of a pair share.

What few runs can show: the smallest two-sided p of n runs a side is 2 / C(2n, n), for 4 runs 0.029,
for 5 runs 0.008. Holm over a family of k metrics multiplies the smallest by k, so that 4 runs a
side can only ever show a difference of a family of one, 5 runs of up to six metrics. `runs_needed`
says it; below, nothing is tested and no p is printed. Never turns "not shown" into "equal".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ALPHA: Final = 0.05
LEVEL: Final = 0.95
MIN_RUNS: Final = 4  # the fewest runs a side with which any p is below ALPHA
MIN_PAIRS: Final = 6
MOST_RUNS: Final = 1000  # where `runs_needed` stops looking

Values = Sequence[float]


class Interval(NamedTuple):
    """Two order statistics between which the true median lies, `level` of the time or more."""

    low: float
    high: float
    level: float


@dataclass(frozen=True, slots=True)
class Stat:
    """One side of a metric: its value in every run, the median, and the interval if n allows."""

    values: tuple[float, ...]
    median: float | None
    interval: Interval | None

    @classmethod
    def of(cls, values: Values) -> "Stat":
        middle = median(values) if len(values) else None
        return cls(tuple(values), middle, median_interval(values))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides of one metric. Swapping them negates `difference` and `log_ratio` exactly and
    leaves both p as they are; `percent` is for people, and not symmetric (-50 % back is +100 %).

    `p_holm` is None where nothing was tested, and `why` says why not. `shown` is None then.
    """

    before: Stat
    after: Stat
    difference: float | None  # after - before, of the medians
    log_ratio: float | None  # ln after - ln before; None unless both are above 0
    percent: float | None  # 100 (after / before - 1); None unless `before` is above 0
    p: float | None = None
    p_holm: float | None = None
    shown: bool | None = None
    why: str = ""

    @classmethod
    def of(cls, before: Values, after: Values) -> "Comparison":
        """Describes; tests nothing."""
        a, b = Stat.of(before), Stat.of(after)
        difference = log_ratio = percent = None
        if a.median is not None and b.median is not None:
            difference = b.median - a.median
            if a.median > 0:
                percent = 100 * (b.median / a.median - 1)
                log_ratio = math.log(b.median) - math.log(a.median) if b.median > 0 else None
        return cls(a, b, difference, log_ratio, percent)


def compare(
    family: Mapping[str, tuple[Values, Values]], *, paired: bool = False
) -> dict[str, Comparison]:
    """Compares every metric of a declared family, name -> (before, after), a value a run.

    All of the family is tested together, by Holm at `ALPHA`. `paired`: the i-th runs belong
    together. Raises ValueError for paired sides of unlike lengths.
    """
    described = {name: Comparison.of(*sides) for name, sides in family.items()}
    testable = [n for n, (a, b) in family.items() if len(a) and len(b)]
    whys = {
        name: too_few(len(family[name][0]), len(family[name][1]), len(testable), paired=paired)
        if name in testable
        else "no values on one of the sides"
        for name in family
    }
    tested = {
        name: (signed_rank_p if paired else rank_sum_p)(*family[name])
        for name in testable
        if not whys[name]
    }
    # One with too few runs still counts, as it was declared; one without values is no hypothesis.
    adjusted = dict(zip(tested, holm(list(tested.values()), len(testable)), strict=True))
    return {
        name: Comparison(
            c.before,
            c.after,
            c.difference,
            c.log_ratio,
            c.percent,
            tested.get(name),
            adjusted.get(name),
            adjusted[name] <= ALPHA if name in adjusted else None,
            whys[name],
        )
        for name, c in described.items()
    }


# -- how many runs -----------------------------------------------------------------------------


def smallest_p(before: int, after: int, *, paired: bool = False) -> float:
    """The smallest two-sided p that so many runs a side can give."""
    return min(1.0, 2 / (2**before if paired else math.comb(before + after, before)))


def runs_needed(family: int, *, paired: bool = False) -> int:
    """Runs a side (pairs) with which at least one of `family` metrics can pass Holm at `ALPHA`."""
    for n in range(MIN_PAIRS if paired else MIN_RUNS, MOST_RUNS):
        if smallest_p(n, n, paired=paired) * family <= ALPHA:
            return n
    raise ValueError(f"a family of {family} metrics")


def too_few(before: int, after: int, family: int, *, paired: bool = False) -> str:
    """Why nothing can be tested, in words; empty when it can."""
    enough = min(before, after) >= (MIN_PAIRS if paired else MIN_RUNS)
    if enough and smallest_p(before, after, paired=paired) * max(family, 1) <= ALPHA:
        return ""
    what = "pairs of runs" if paired else "runs a side"
    of_one, of_all = (runs_needed(max(k, 1), paired=paired) for k in (1, family))
    if of_one == of_all:
        return f"needs {of_one} {what}"
    together = f"{family} metrics tested together"
    return (
        f"needs {of_all} {what} for {together}"
        if enough
        else f"needs {of_one} {what} ({of_all} for {together})"
    )


# -- the median and its interval ---------------------------------------------------------------


def median(values: Values) -> float:
    """The middle value, or the mean of the middle two."""
    ordered = sorted(values)
    n = len(ordered)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def median_interval(values: Values, level: float = LEVEL) -> Interval | None:
    """The narrowest [k-th smallest, k-th largest] that covers the true median `level` of the time.

    Exact for any distribution: it misses when fewer than k of n values fall on one side of the
    median, which has the binomial probability 2 P(B(n, 1/2) < k). None when not even all values
    cover it: below 6 runs for 95 % (5 runs reach 93.75 %).
    """
    ordered, n = sorted(values), len(values)
    misses, k = 0.0, 0
    while k < n // 2 and misses + 2 * math.comb(n, k) / 2**n <= 1 - level:
        misses += 2 * math.comb(n, k) / 2**n
        k += 1
    return Interval(ordered[k - 1], ordered[n - k], 1 - misses) if k else None


# -- tests -------------------------------------------------------------------------------------


def rank_sum_p(before: Values, after: Values) -> float:
    """Two-sided p of the exact Mann-Whitney test, equal values sharing their mean rank.

    The share of all ways to pick the first side's runs whose rank sum is at least as far from its
    mean as the observed one is.
    """
    ranks = _doubled_ranks([*before, *after])
    n, total = len(before), sum(ranks)
    ways = _rank_sums(tuple(sorted(ranks)), n)
    off = np.abs(len(ranks) * np.arange(len(ways), dtype=np.int64) - n * total)
    observed = abs(len(ranks) * sum(ranks[:n]) - n * total)
    return float(ways[off >= observed].sum() / ways.sum())


def signed_rank_p(before: Values, after: Values) -> float:
    """Two-sided p of the exact Wilcoxon signed-rank test of pairs; pairs without a difference say
    nothing. The share of all ways to swap the two of each pair. Raises ValueError for unlike
    lengths."""
    differences = [b - a for a, b in zip(before, after, strict=True) if b != a]
    ranks = _doubled_ranks([abs(d) for d in differences])
    total = sum(ranks)
    ways = np.zeros(total + 1)
    ways[0] = 1
    for rank in ranks:
        ways[rank:] = ways[rank:] + ways[: total + 1 - rank]
    off = np.abs(2 * np.arange(total + 1) - total)
    up = sum(rank for rank, d in zip(ranks, differences, strict=True) if d > 0)
    return float(ways[off >= abs(2 * up - total)].sum() / ways.sum())


def holm(p_values: Sequence[float], family: int | None = None) -> list[float]:
    """Holm's adjusted p, in the given order: at most ALPHA of them wrong at all, however the
    metrics hang together. `family` is how many were declared, if more than are given."""
    size = len(p_values) if family is None else max(family, len(p_values))
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (size - place) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def _doubled_ranks(values: Values) -> list[int]:
    """Twice the rank of each value, from 2 up; whole, as equal values share their mean rank."""
    ordered = np.sort(np.asarray(values, np.float64))
    below = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    return [int(a + b + 1) for a, b in zip(below, up_to, strict=True)]


@lru_cache(maxsize=64)
def _rank_sums(ranks: tuple[int, ...], n: int) -> NDArray[np.float64]:
    """How many ways there are to pick `n` of the ranks, by their sum."""
    ways = np.zeros((n + 1, sum(ranks) + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] = ways[1:, rank:] + ways[:-1, : ways.shape[1] - rank]
    of_n: NDArray[np.float64] = ways[n]
    return of_n
