"""Promises 10 and 13: what few runs can show, and that nothing more is claimed."""

import itertools
import math

import numpy as np
import pytest

from mmload.analysis import significance as s


def brute_force(before: list[float], after: list[float]) -> float:
    """The same test by hand: every way to deal the runs, with ranks by counting."""
    both = before + after
    ranks = [sum(v < x for v in both) + (sum(v == x for v in both) + 1) / 2 for x in both]
    mean = sum(ranks) * len(before) / len(both)
    seen = abs(sum(ranks[: len(before)]) - mean)
    deals = list(itertools.combinations(range(len(both)), len(before)))
    far = [d for d in deals if abs(sum(ranks[i] for i in d) - mean) >= seen - 1e-9]
    return len(far) / len(deals)


def test_rank_sum_against_every_deal() -> None:
    rng = np.random.default_rng(1)
    for n, m in itertools.product(range(1, 6), range(1, 6)):
        for high in (4, 1000):  # the first with many ties
            before = [float(v) for v in rng.integers(0, high, n)]
            after = [float(v) for v in rng.integers(0, high, m)]
            assert s.rank_sum_p(before, after) == pytest.approx(brute_force(before, after))


def test_published_values() -> None:
    """Hollander and Wolfe, example 4.1, chorioamniotic permeability: exact two-sided p 0.2544
    (R: wilcox.test(x, y)); example 3.1, Hamilton depression scale: 0.03906 (paired)."""
    x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
    y = [1.15, 0.88, 0.90, 0.74, 1.21]
    assert round(s.rank_sum_p(x, y), 4) == 0.2544
    first = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    second = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    assert round(s.signed_rank_p(first, second), 5) == 0.03906


@pytest.mark.parametrize(("n", "p"), [(3, 2 / 20), (4, 2 / 70), (5, 2 / 252), (6, 2 / 924)])
def test_sides_that_do_not_overlap_give_the_smallest_p(n: int, p: float) -> None:
    before, after = [float(i) for i in range(n)], [float(100 + i) for i in range(n)]
    assert s.rank_sum_p(before, after) == p == s.smallest_p(n, n)
    assert s.signed_rank_p(before, after) == 2 / 2**n == s.smallest_p(n, n, paired=True)


def test_no_difference_at_all_is_p_1() -> None:
    assert s.rank_sum_p([5.0] * 4, [5.0] * 6) == 1
    assert s.signed_rank_p([5.0] * 4, [5.0] * 4) == 1


def test_many_runs_take_no_time_and_agree_with_the_normal_form() -> None:
    rng = np.random.default_rng(3)
    before, after = rng.normal(0, 1, 60).tolist(), rng.normal(0.4, 1, 60).tolist()
    ranks = np.argsort(np.argsort(before + after))[:60] + 1
    z = (abs(ranks.sum() - 60 * 121 / 2) - 0.5) / math.sqrt(60 * 60 * 121 / 12)
    assert s.rank_sum_p(before, after) == pytest.approx(math.erfc(z / math.sqrt(2)), rel=0.02)


def test_runs_needed() -> None:
    """C(8,4) = 70, C(10,5) = 252, C(12,6) = 924: 2k over them must be at most 0.05."""
    assert [s.runs_needed(k) for k in (1, 2, 6, 7, 23, 24)] == [4, 5, 5, 6, 6, 7]
    # pairs: 2 / 64 = 0.031, 5 x 2 / 256 = 0.039
    assert [s.runs_needed(k, paired=True) for k in (1, 2, 5, 6)] == [6, 7, 8, 8]


def test_too_few_runs_explain_themselves() -> None:
    assert s.too_few(1, 1, 1) == "needs 4 runs a side"
    assert s.too_few(3, 9, 1) == "needs 4 runs a side"
    assert s.too_few(3, 3, 5) == "needs 4 runs a side (5 for 5 metrics tested together)"
    assert s.too_few(4, 4, 5) == "needs 5 runs a side for 5 metrics tested together"
    assert s.too_few(4, 4, 1) == s.too_few(5, 5, 5) == ""
    assert s.too_few(5, 5, 1, paired=True) == "needs 6 pairs of runs"
    found = s.compare({"a": ([1.0] * 3, [9.0] * 3)})["a"]
    assert (found.p, found.p_holm, found.shown, found.why) == (
        None,
        None,
        None,
        "needs 4 runs a side",
    )
    assert (found.difference, found.percent) == (8, 800)


def test_one_run_has_no_interval_and_repeats_have() -> None:
    """Promise 10. Five values reach 1 - 2 / 32 = 93.75 %, six 1 - 2 / 64 = 96.875 %."""
    for n in range(6):
        assert s.Stat.of(list(range(n))).interval is None
    assert s.median_interval([3, 1, 2, 6, 5, 4]) == (1, 6, 0.96875)
    # nine: 1 - 2 (1 + 9) / 512, so the second from each end
    assert s.median_interval(list(range(9))) == (1, 7, 1 - 20 / 512)
    assert s.Stat.of([]).median is None


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    for n in (6, 11, 20):
        intervals = [s.median_interval(v) for v in rng.lognormal(0, 1, (2000, n)).tolist()]
        held = sum(i is not None and i.low <= 1 <= i.high for i in intervals) / 2000
        level = intervals[0].level if intervals[0] else 0
        assert level >= 0.95 and abs(held - level) < 0.015


def test_holm_by_hand() -> None:
    """Holm 1979's own figures: .01, .04, .03, .005 give .03, .06, .06, .02."""
    assert s.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert s.holm([0.01], family=5) == pytest.approx([0.05])
    assert s.holm([]) == []


METRICS = ("ttft:p50", "ttft:p90", "ttft:p99", "e2e:p90", "achieved")


def made_up(seed: int, runs: int, correlation: float) -> dict[str, tuple[list[float], list[float]]]:
    """Two sides of runs of the same server: metrics move together, by as much as asked."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, 1, (2, runs, 1))
    own = rng.normal(0, 1, (2, runs, len(METRICS)))
    values = np.exp(correlation * shared + math.sqrt(1 - correlation**2) * own)
    return {m: (values[0, :, i].tolist(), values[1, :, i].tolist()) for i, m in enumerate(METRICS)}


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_a_against_a_over_1000_seeds(correlation: float, paired: bool) -> None:
    """Promise 13: at most 5 % of comparisons of a server with itself show any difference."""
    for runs in (5, 8):
        alarms = sum(
            any(
                c.shown for c in s.compare(made_up(seed, runs, correlation), paired=paired).values()
            )
            for seed in range(1000)
        )
        assert alarms <= 50, (runs, alarms)


def test_swapping_the_sides_negates_every_change() -> None:
    """Promise 13: exactly, not nearly."""
    for seed in range(200):
        family = made_up(seed, 3 + seed % 7, 0.5)
        there = s.compare(family)
        back = s.compare({name: (b, a) for name, (a, b) in family.items()})
        for name in family:
            one, other = there[name], back[name]
            assert one.difference == -(other.difference or 0)
            assert one.log_ratio == -(other.log_ratio or 0)
            assert (one.p, one.p_holm, one.shown) == (other.p, other.p_holm, other.shown)
            assert (one.before, one.after) == (other.after, other.before)


def test_a_real_difference_is_shown_from_five_runs_on() -> None:
    family: dict[str, tuple[list[float], list[float]]] = {
        m: ([100.0 + i for i in range(5)], [50.0 + i for i in range(5)]) for m in METRICS
    }
    for found in s.compare(family).values():
        assert found.p == 2 / 252 and found.p_holm == pytest.approx(10 / 252)
        assert found.shown is True and found.percent == pytest.approx(-100 * 50 / 102)


def test_missing_values_are_said_and_the_others_go_on() -> None:
    found = s.compare({"a": ([], [1.0]), "b": ([1.0, 2, 3, 4], [5.0, 6, 7, 8])})
    assert found["a"].why == "no values on one of the sides" and found["a"].difference is None
    assert found["b"].shown is True
    with pytest.raises(ValueError):
        s.signed_rank_p([1, 2], [1])
