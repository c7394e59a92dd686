"""Nearest-rank percentiles: the smallest recorded value that a share q of all do not exceed.

In: numpy arrays of nanoseconds, NaN for "never". Out: recorded values in milliseconds, never
interpolated, with ranks worked out in integers (0.99 * 199 is 197.01 as a float product too, but
0.07 * 100 is 7.000000000000001, and its ceiling would be one rank off).
"""

from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

NS_PER_MS: Final = 1e6

P50: Final = Fraction(1, 2)
P90: Final = Fraction(9, 10)
P99: Final = Fraction(99, 100)
P99_9: Final = Fraction(999, 1000)

# The fewest samples for which a percentile has an upper confidence bound at all, two-sided 95 %:
# the smallest n with 1 - q**n >= 0.975. Below, the highest value may well lie under the percentile.
MIN_SAMPLES_P99: Final = 368
MIN_SAMPLES_P99_9: Final = 3688


def nearest_rank(n: int, q: Fraction) -> int:
    """The 1-based rank ceil(q * n), at least 1, for `n` >= 1 samples and 0 <= q <= 1."""
    return max(1, -(-q.numerator * n // q.denominator))


def at_quantile(values: NDArray[np.float64], q: Fraction) -> float | None:
    """The nearest-rank value, in the unit of `values`; None without samples. NaN is no sample."""
    samples = _known(values)
    if not len(samples):
        return None
    index = nearest_rank(len(samples), q) - 1
    return float(np.partition(samples, index)[index])


def dist(values_ns: NDArray[np.float64]) -> dict[str, Any] | None:
    """`Dist` of docs/summary.md, in milliseconds; None without samples. NaN is no sample."""
    samples = _known(values_ns)
    n = len(samples)
    if not n:
        return None
    index = {q: nearest_rank(n, q) - 1 for q in (P50, P90, P99, P99_9)}
    ordered = np.partition(samples, sorted(set(index.values())))

    def at(q: Fraction) -> float:
        return ms(ordered[index[q]])

    return {
        "n": n,
        "mean": ms(samples.mean()),
        "p50": at(P50),
        "p90": at(P90),
        "p99": at(P99),
        "p99_9": at(P99_9) if n >= MIN_SAMPLES_P99_9 else None,
        "max": ms(samples.max()),
    }


def percentile_curve(
    values_ns: NDArray[np.float64], points: int = 200
) -> tuple[list[float], list[float]]:
    """Percents and milliseconds for a curve over a logarithmic axis of 1 / (1 - q).

    Starts at (0, minimum) and ends at q = 1 - 1/n: past it a sample of n says nothing, so nothing
    is drawn. About `points` ranks, spread evenly over that axis.
    """
    ordered = np.sort(_known(values_ns))
    n = len(ordered)
    if not n:
        return [], []
    # rank k stands for q = k/n, thus for n / (n - k) on the axis, which runs from 1 to n
    axis = np.geomspace(1.0, n, min(points, n))
    ranks = np.unique(np.clip(np.rint(n - n / axis), 0, n - 1).astype(np.int64))
    percents = 100.0 * ranks / n
    values = ordered[np.maximum(ranks, 1) - 1] / NS_PER_MS
    return [round(float(p), 6) for p in percents], [round(float(v), 6) for v in values]


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    unknown = np.isnan(values)
    return values[~unknown] if unknown.any() else values


def ms(value_ns: float) -> float:
    """Milliseconds as a plain float, to the nanosecond."""
    return round(float(value_ns) / NS_PER_MS, 6)
