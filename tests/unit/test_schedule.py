"""Arrival processes: exact, reproducible, and with the statistics that their names promise."""

import hashlib
import math
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest

from mmload.load import schedule
from mmload.load.schedule import (
    Segment,
    arrivals,
    even,
    exact_shares,
    gamma,
    poisson,
    profiled_arrivals,
    seeded,
    shuffled,
)

S = 1_000_000_000


def sha(values: np.ndarray) -> str:
    return hashlib.sha256(values.astype("<i8").tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("rate", [5.0, 0.3, 7.77, 1234.5])
def test_a_constant_schedule_is_exact(rate: float) -> None:
    times = arrivals(even(), rate, requests=1_000_000)
    assert len(times) == 1_000_000
    for i in (*range(1000), 123_456, 999_999):
        assert times[i] == round(i * 1e9 / rate)


def test_a_duration_excludes_its_end() -> None:
    assert len(arrivals(even(), 5, duration_s=30)) == 150
    assert arrivals(even(), 5, duration_s=30)[-1] == 29_800_000_000
    assert len(arrivals(even(), 0.1, duration_s=5)) == 1


@pytest.mark.parametrize(
    ("unit", "golden"),
    [
        (lambda: even(), "1c08642229a4852b"),
        (lambda: poisson(seeded(7, "arrivals")), "83a065167df1fbd2"),
        (lambda: gamma(seeded(7, "arrivals"), 0.5), "305c3169084f65fe"),
        (lambda: gamma(seeded(7, "arrivals"), 4.0), "802c729abdaa6b46"),
    ],
    ids=["even", "poisson", "gamma0.5", "gamma4"],
)
def test_a_seed_gives_the_same_schedule_everywhere(
    unit: Callable[[], schedule.Unit], golden: str
) -> None:
    assert sha(arrivals(unit(), 5.0, requests=10_000)) == golden


def test_seeds_and_purposes_are_separate() -> None:
    first = {
        (seed, purpose): seeded(seed, purpose).random()
        for seed in (0, 1)
        for purpose in ("arrivals", "media", "mix")
    }
    assert len(set(first.values())) == 6


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.diff(np.array(list(islice(poisson(seeded(3, "arrivals")), 200_001))))
    assert gaps.mean() == pytest.approx(1, abs=4 / math.sqrt(200_000))
    assert gaps.var() == pytest.approx(1, abs=0.03)
    for x in (0.1, 0.7, 1.0, 2.5, 5.0):  # the distribution function, at 4 standard errors
        p = 1 - math.exp(-x)
        assert (gaps <= x).mean() == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 200_000))
    # Memoryless: gaps are not correlated.
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 4 / math.sqrt(200_000)


@pytest.mark.parametrize("shape", [0.25, 0.5, 1.0, 2.0, 10.0])
def test_gamma_gaps_have_mean_1_and_variance_1_over_shape(shape: float) -> None:
    n = 100_000
    gaps = np.diff(np.array(list(islice(gamma(seeded(5, "arrivals"), shape), n + 1))))
    assert gaps.mean() == pytest.approx(1, abs=5 / math.sqrt(n * shape))
    assert gaps.var() == pytest.approx(1 / shape, rel=0.06)


def test_a_steady_profile_is_the_constant_schedule() -> None:
    steady = profiled_arrivals(even(), [Segment(5, 5, 10)], duration_s=30)
    assert steady.tolist() == arrivals(even(), 5, duration_s=30).tolist()


def test_steps_and_pauses() -> None:
    """2/s for 2 s, nothing for 3 s, again: 0, .5, 1, 1.5, 5, 5.5, 6, 6.5 s."""
    times = profiled_arrivals(even(), [Segment(2, 2, 2), Segment(0, 0, 3)], duration_s=10)
    assert times.tolist() == [int(t * S) for t in (0, 0.5, 1, 1.5, 5, 5.5, 6, 6.5)]


def test_a_ramp_follows_its_integral() -> None:
    """From 0 to 10/s in 20 s, i arrivals are due at sqrt(4 i) s: t^2 / 4 = i."""
    times = profiled_arrivals(even(), [Segment(0, 10, 20)], duration_s=20)
    assert len(times) == 100
    assert times.tolist() == [round(math.sqrt(4 * i) * S) for i in range(100)]
    down = profiled_arrivals(even(), [Segment(10, 0, 20)], duration_s=20)
    # By symmetry: from the end, arrival 100 - i of the falling ramp is at 20 - sqrt(4 i).
    assert down[1:].tolist() == pytest.approx(
        [(20 - math.sqrt(4 * i)) * S for i in range(99, 0, -1)], abs=2
    )


@pytest.mark.parametrize(
    ("weights", "n", "shares"),
    [
        ([1, 1, 1], 10, [4, 3, 3]),
        ([0.5, 0.25, 0.25], 150, [75, 38, 37]),
        ([3, 1], 1, [1, 0]),
        ([1], 7, [7]),
    ],
)
def test_shares_are_exact(weights: list[float], n: int, shares: list[int]) -> None:
    assert exact_shares(weights, n) == shares


def test_a_shuffle_keeps_everything_and_depends_on_the_seed() -> None:
    a = shuffled(range(100), seeded(1, "mix"))
    assert sorted(a) == list(range(100)) and a != sorted(a)
    assert a == shuffled(range(100), seeded(1, "mix"))
    assert a != shuffled(range(100), seeded(2, "mix"))
