"""Nearest rank on known samples, with ranks that floats would get wrong."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mmload.analysis import quantiles as q

MS = 1e6


def numbers(first: int, end: int) -> NDArray[np.float64]:
    """first, first + 1, ... end - 1 milliseconds, in ns."""
    return np.arange(first, end, dtype=np.float64) * MS


@pytest.mark.parametrize(
    ("n", "quantile", "rank"),
    [
        (199, q.P99, 198),  # 197.01 -> 198
        (200, q.P99, 198),
        (201, q.P99, 199),
        (1, q.P99, 1),
        (2, q.P50, 1),
        (3, q.P50, 2),
        (100, Fraction(7, 100), 7),  # ceil(0.07 * 100) is 8
        (10_000, q.P99_9, 9990),
        (5, Fraction(0), 1),
        (5, Fraction(1), 5),
    ],
)
def test_rank(n: int, quantile: Fraction, rank: int) -> None:
    assert q.nearest_rank(n, quantile) == rank


def test_dist_of_199_values() -> None:
    values = np.random.default_rng(1).permutation(numbers(1, 200))
    assert q.dist(values) == {
        "n": 199,
        "mean": 100.0,
        "p50": 100.0,
        "p90": 180.0,  # ceil(179.1)
        "p99": 198.0,
        "p99_9": None,
        "max": 199.0,
    }


def test_dist_of_0_1_and_2_values() -> None:
    assert q.dist(np.empty(0)) is None
    assert q.dist(np.array([np.nan, np.nan])) is None
    one = q.dist(np.array([5 * MS]))
    assert one is not None
    assert (one["n"], one["p50"], one["p99"], one["max"]) == (1, 5.0, 5.0, 5.0)
    two = q.dist(np.array([8 * MS, np.nan, 4 * MS]))
    assert two is not None
    assert (two["n"], two["mean"], two["p50"], two["p90"], two["p99"]) == (2, 6.0, 4.0, 8.0, 8.0)


def test_p99_9_appears_with_3688_samples() -> None:
    at, below = q.dist(numbers(0, 3688)), q.dist(numbers(0, 3687))
    assert at is not None and below is not None
    assert below["p99_9"] is None
    assert at["p99_9"] == 3684.0  # rank ceil(3684.312) = 3685 of 0, 1, 2, ...


def test_fewest_samples_for_a_bound() -> None:
    # the highest of n values is above quantile q with probability 1 - q**n; two-sided 95 %
    for n, quantile in ((q.MIN_SAMPLES_P99, 0.99), (q.MIN_SAMPLES_P99_9, 0.999)):
        assert 1 - quantile**n >= 0.975 > 1 - quantile ** (n - 1)


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=200), st.integers(0, 1000))
def test_at_quantile_is_the_definition(values: list[int], permille: int) -> None:
    found = q.at_quantile(np.array(values, np.float64), Fraction(permille, 1000))
    enough = [v for v in values if sum(w <= v for w in values) * 1000 >= permille * len(values)]
    assert found == min(enough)
    assert q.at_quantile(np.empty(0), q.P50) is None


def test_curve_ends_where_the_sample_does() -> None:
    assert q.percentile_curve(np.empty(0)) == ([], [])
    assert q.percentile_curve(np.array([7 * MS])) == ([0.0], [7.0])
    assert q.percentile_curve(np.array([2 * MS, 1 * MS])) == ([0.0, 50.0], [1.0, 1.0])
    percents, values = q.percentile_curve(numbers(1, 1001))
    assert (percents[0], values[0]) == (0.0, 1.0)
    assert (percents[-1], values[-1]) == (99.9, 999.0)  # never the maximum: 1 - 1/n is the end
    assert percents == sorted(set(percents))
    assert all(v == max(1, round(p * 10)) for p, v in zip(percents, values, strict=True))
    assert 100 <= len(percents) <= 200
    # on the axis log(1 / (1 - q)) no gap is wider than that between the last two ranks
    axis = [math.log(100 / (100 - p)) for p in percents]
    assert max(b - a for a, b in zip(axis, axis[1:], strict=False)) <= math.log(2) + 1e-9
