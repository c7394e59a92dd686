"""Backlogs of queues that were worked out by hand, and the identity that none can break."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmload.analysis.queues import Steps
from tests.unit.analysis_samples import DeterministicQueue, S


def steps(*stays: tuple[float, float]) -> Steps:
    start, end = np.array(stays, np.float64).reshape(-1, 2).T
    return Steps.of(start, end)


def test_levels_of_three_stays() -> None:
    found = steps((0, 10), (5, 20), (10, 12))
    assert found.time_ns.tolist() == [0, 5, 10, 12, 20]
    assert found.level.tolist() == [1, 2, 2, 1, 0]  # at 10 one leaves as the next comes
    assert found.max == 2
    assert [found.at(t) for t in (-1, 0, 4, 5, 19, 20, 99)] == [0, 1, 1, 2, 1, 0, 0]
    assert found.integral() == 10 + 15 + 2
    assert found.busy_ns() == 20
    assert steps((0, 1), (3, 5)).busy_ns() == 3


def test_no_stays_and_empty_stays() -> None:
    assert (steps().max, steps().at(5), steps().slope_per_s(0, 5)) == (0, 0, 0.0)
    assert (steps().integral(), steps().busy_ns()) == (0.0, 0.0)
    assert steps((3, 3)).level.tolist() == [0]


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**11)), min_size=1, max_size=300)
)
def test_the_integral_is_the_sum_of_all_stays(stays: list[tuple[int, int]]) -> None:
    """Promise 3: requests in flight over time add up to the latencies, within 1e-9."""
    found = steps(*((a, a + length) for a, length in stays))
    total = sum(length for _, length in stays)
    assert found.integral() == pytest.approx(total, rel=1e-9)
    assert found.level[-1] == 0
    assert found.level.min() >= 0


def test_slope_is_the_least_squares_line_through_the_steps() -> None:
    rng = np.random.default_rng(3)
    start = np.sort(rng.uniform(0, 10 * S, 60)).round()
    found = Steps.of(start, start + rng.uniform(0, 5 * S, 60).round())
    grid = (np.arange(200_000) + 0.5) * 10 * S / 200_000
    level = found.level[np.searchsorted(found.time_ns, grid, side="right") - 1]
    level = np.where(grid < found.time_ns[0], 0, level)
    expected = np.polyfit(grid / S, level, 1)[0]
    assert found.slope_per_s(0, 10 * S) == pytest.approx(expected, abs=1e-3)
    # a window that cuts stays off at both ends
    inside = (grid >= 2 * S) & (grid <= 7 * S)
    expected = np.polyfit(grid[inside] / S, level[inside], 1)[0]
    assert found.slope_per_s(2 * S, 7 * S) == pytest.approx(expected, abs=1e-3)


def test_slope_of_an_overloaded_queue_is_what_arrives_minus_what_it_can_do() -> None:
    queue = DeterministicQueue()
    backlog = Steps.of(queue.table.times["intended_ns"], queue.table.times["closed_ns"])
    # 5/s in, 1 / 0.3 s out; the sawtooth of whole periods bends the line by under 2e-4
    assert backlog.slope_per_s(0, 30 * S) == pytest.approx(5 - 1 / 0.3, abs=2e-4)
    assert backlog.at(30 * S) == 50  # 150 have come, 100 are done
    assert backlog.max == 51  # at 29.8 s: 150 have come, 99 are done


def test_thinning_keeps_every_extreme() -> None:
    rng = np.random.default_rng(4)
    start = np.sort(rng.uniform(0, 1e12, 20_000)).round()
    found = Steps.of(start, start + rng.exponential(1e9, 20_000).round())
    thin = found.thinned(600)
    assert len(thin.time_ns) <= 600
    assert thin.max == found.max
    assert (thin.time_ns[0], thin.time_ns[-1]) == (found.time_ns[0], found.time_ns[-1])
    assert (np.diff(thin.time_ns) > 0).all()
    assert all(found.at(t) == level for t, level in zip(thin.time_ns, thin.level, strict=True))
    edges = np.linspace(found.time_ns[0], found.time_ns[-1], 151)
    edges[-1] += 1  # the last stretch holds its end
    for a, b in zip(edges, edges[1:], strict=False):
        whole = found.level[(found.time_ns >= a) & (found.time_ns < b)]
        kept = thin.level[(thin.time_ns >= a) & (thin.time_ns < b)]
        assert (kept.min(), kept.max()) == (whole.min(), whole.max())


def test_few_steps_are_not_thinned() -> None:
    found = steps((0, 10), (5, 20))
    assert found.thinned(600) is found
