"""Does a setting matter, and by how much? Changes between runs, with intervals and p.

In: one figure a run (a latency), for two sides, in cells (one a combination of everything else)
with a value a repeat. Out: `Change`: the ratio of the two sides, its interval, and p.

How: the two sides of a cell and repeat ran in the same block, so their difference of logarithms is
free of what the whole block had in common. A cell's mean difference has the variance of its own
repeats; the mean over the cells takes Student's t with degrees of freedom by Satterthwaite, since
cells near saturation scatter far more than calm ones. It rests on run-to-run noise being roughly
symmetric on a log scale: a sweep can seldom pay for the runs that an exact rank test of each pair
needs (`mmload.analysis.significance`), and its winner deserves that test with `mmload compare`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.student import critical, two_sided_p

ALPHA: Final = 0.05
CONFIDENCE: Final = 0.95
MIN_PAIRS: Final = 3  # two that happen to agree would look like certainty
MIN_DEGREES: Final = 3  # of a noise that stands in for theirs
MOST_REPEATS_ADVISED: Final = 50

Cells = Sequence[NDArray[np.float64]]  # a cell: a value a repeat, NaN where there is none


@dataclass(frozen=True, slots=True)
class Noise:
    """Variance of a run's logarithm within blocks, pooled over a sweep, and its degrees."""

    variance: float
    df: int


@dataclass(frozen=True, slots=True)
class Change:
    """Side b over side a. `ratio` 0.5: half of it. Interval and p are None for single repeats, and
    for fewer than `MIN_PAIRS` pairs of runs."""

    ratio: float
    low: float | None
    high: float | None
    p: float | None
    pairs: int
    cells: tuple[float, ...]  # the ratio in each cell

    def within(self, share: float) -> bool:
        """Whether the whole interval lies within -share..+share, and no cell's ratio outside."""
        if self.low is None or self.high is None:
            return False
        least, most = 1 - share, 1 + share
        return (
            least <= self.low and self.high <= most and all(least <= c <= most for c in self.cells)
        )

    @property
    def half_width(self) -> float | None:
        """Of the interval, on the log scale."""
        if self.low is None or self.high is None:
            return None
        return (math.log(self.high) - math.log(self.low)) / 2 if self.low > 0 else math.inf


def change(a: Cells, b: Cells, noise: Noise | None = None) -> Change | None:
    """From side `a` to side `b`, whose cells belong together and hold values above 0; None without
    a repeat in which both have one. `noise` stands in for the scatter of too few pairs."""
    means, variances, pairs = [], [], 0
    single = False
    for of_a, of_b in zip(a, b, strict=True):
        difference = np.log(of_b) - np.log(of_a)
        difference = difference[~np.isnan(difference)]
        n = len(difference)
        if not n:
            continue
        pairs += n
        single = single or n < 2
        means.append(float(difference.mean()))
        if n > 1:
            variances.append((float(difference.var(ddof=1)) / n, n - 1))
    if not means:
        return None
    mean = math.fsum(means) / len(means)
    cells = tuple(math.exp(m) for m in means)
    if single or pairs < MIN_PAIRS:
        if noise is None or noise.df < MIN_DEGREES:
            return Change(math.exp(mean), None, None, None, pairs, cells)
        error, df = math.sqrt(2 * noise.variance / pairs), float(noise.df)
    else:
        total = math.fsum(v for v, _ in variances)
        error = math.sqrt(total) / len(means)
        df = total**2 / math.fsum(v**2 / n for v, n in variances) if total else 1.0
    if error == 0:
        p = 1.0 if mean == 0 else 0.0
        return Change(math.exp(mean), math.exp(mean), math.exp(mean), p, pairs, cells)
    reach = critical(CONFIDENCE, df) * error
    low, high = (math.exp(min(mean + by, 700.0)) for by in (-reach, reach))
    return Change(math.exp(mean), low, high, two_sided_p(mean / error, df), pairs, cells)


def repeats_needed(one: Change, repeats: int, share: float) -> int | None:
    """About how many repeats make the interval fit within +-`share`, if the noise stays as it is;
    None when nobody would run so many."""
    half = one.half_width
    if half is None:
        return None
    needed = math.ceil(repeats * (half / math.log1p(share)) ** 2)
    return max(needed, repeats + 1) if needed <= MOST_REPEATS_ADVISED else None
