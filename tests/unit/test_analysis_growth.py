"""Promise 11: stable, growing or can't tell, on hundreds of queues of known utilisation."""

import itertools

import numpy as np
import pytest

from mmload.analysis import growth
from mmload.analysis.growth import Growth, judge, mann_kendall, rises, window_of
from mmload.analysis.queues import Steps

SERVICE_NS = 0.2e9
KINDS = ("M/M/1", "M/D/1", "D/M/1")
SEEDS = range(100)


def simulate(kind: str, utilisation: float, requests: int, seed: int) -> Growth:
    """The verdict on a single-server queue that starts empty."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    gap = SERVICE_NS / utilisation
    gaps = rng.exponential(gap, requests) if kind[0] == "M" else np.full(requests, gap)
    work = np.full(requests, SERVICE_NS)
    if kind[2] == "M":
        work = rng.exponential(SERVICE_NS, requests)
    arrivals = np.cumsum(gaps) - gaps[0]
    worked = np.cumsum(work)
    # Lindley: a request ends when all work since the last idle instant before it is done
    ends = worked + np.maximum.accumulate(arrivals - (worked - work))
    return judge(window_of(arrivals), arrivals, ends - arrivals, Steps.of(arrivals, ends))


def verdicts(utilisation: float, requests: int) -> list[str]:
    """Of 300 seeded queues."""
    return [
        simulate(kind, utilisation, requests, seed).verdict
        for kind, seed in itertools.product(KINDS, SEEDS)
    ]


@pytest.mark.parametrize("utilisation", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("requests", [600, 2000])
def test_at_most_2_percent_false_alarms(utilisation: float, requests: int) -> None:
    found = verdicts(utilisation, requests)
    assert found.count("growing") <= 0.02 * len(found)


def test_a_lightly_loaded_queue_is_mostly_called_stable() -> None:
    found = verdicts(0.5, 600)
    assert found.count("stable") >= 0.9 * len(found)


@pytest.mark.parametrize("requests", [600, 2000])
def test_all_growing_at_utilisation_1_5(requests: int) -> None:
    assert set(verdicts(1.5, requests)) == {"growing"}


@pytest.mark.parametrize("utilisation", [0.5, 0.95, 1.1, 1.5])
@pytest.mark.parametrize("requests", [1, 19, 60, 80])
def test_too_short_runs_are_never_called_stable(utilisation: float, requests: int) -> None:
    assert "stable" not in verdicts(utilisation, requests)


def test_no_arrivals() -> None:
    nothing = np.empty(0)
    found = judge(window_of(nothing), nothing, nothing, Steps.of(nothing, nothing))
    assert (found.verdict, found.smallest_overload_seen) == ("cant_tell", None)


def test_the_smallest_overload_seen_is_that_of_the_second_half() -> None:
    found = simulate("D/M/1", 0.5, 800, 1)
    assert found.smallest_overload_seen == pytest.approx(2 / 400**0.5)


def test_one_sign_alone_is_cant_tell() -> None:
    arrivals = np.arange(400, dtype=np.float64) * 1e9
    # every request stays a little longer than the last, up to 4 s: hardly anything piles up
    slower = np.arange(400, dtype=np.float64) * 1e7
    found = judge(window_of(arrivals), arrivals, slower, Steps.of(arrivals, arrivals + slower))
    assert found.verdict == "cant_tell"
    assert "latency rises from batch to batch, but backlog +2 over" in found.reason
    # all stay to the end of the run: the backlog grows by every arrival, latency falls
    ends = np.full(400, 500e9)
    found = judge(window_of(arrivals), arrivals, ends - arrivals, Steps.of(arrivals, ends))
    assert found.verdict == "cant_tell"
    assert "latency does not rise, but backlog +200 over the last 200" in found.reason


def test_the_order_of_the_records_does_not_matter() -> None:
    arrivals = np.arange(600, dtype=np.float64) * 0.2e9
    stays = 0.3e9 + np.arange(600, dtype=np.float64) * 0.1e9
    backlog = Steps.of(arrivals, arrivals + stays)
    shuffled = np.random.default_rng(1).permutation(600)
    window = window_of(arrivals)
    assert judge(window, arrivals, stays, backlog) == judge(
        window, arrivals[shuffled], stays[shuffled], backlog
    )


def test_mann_kendall_counts_pairs() -> None:
    assert mann_kendall(np.array([1.0, 2.0, 3.0, 4.0])) == 6
    assert mann_kendall(np.array([4.0, 3.0, 2.0, 1.0])) == -6
    assert mann_kendall(np.array([1.0, 1.0, 2.0, 0.0])) == -1  # + + - among 5 unequal pairs: 2 - 3


def test_the_threshold_is_the_exact_5_percent_point() -> None:
    """P(S >= s) over all orders of ten, by counting inversions (S = 45 - 2 x inversions)."""
    ways = np.array([1])
    for n in range(2, growth.BATCHES + 1):
        ways = np.convolve(ways, np.ones(n, int))
    chance = {45 - 2 * i: ways[: i + 1].sum() / ways.sum() for i in range(len(ways))}
    assert chance[growth.S_RISING] <= 0.05 < chance[growth.S_RISING - 2]
    assert round(chance[growth.S_RISING], 3) == 0.036


@pytest.mark.parametrize(
    ("last", "expected"),
    [(104.0, False), (110.0, True), (100.0, False)],
)
def test_a_steady_drift_of_a_few_percent_is_no_rise(last: float, expected: bool) -> None:
    """Ten even steps from 100 to 104: the first and last three differ by 3.1 %; to 110, 7.8 %."""
    assert rises(np.linspace(100.0, last, 10), np.linspace(0, 100, 10)) is expected


def test_waits_rise_by_the_overload_and_what_rises_more_slowly_is_no_queue() -> None:
    """A queue at utilisation 1.02 makes requests wait 0.02 s longer each second, one at 1.004 0.004
    s (beside an idle one's 0.2 s). The machine's own drift is of that size."""
    arrivals = np.arange(160, dtype=np.float64) * (1e9 / 8.5)
    for overload, expected in ((0.02, True), (0.004, False), (0.0, False)):
        stays = 0.2e9 + overload * arrivals
        at_ns = growth.batch_medians(arrivals)
        assert rises(growth.batch_medians(stays), at_ns) is expected
    ends = arrivals + 0.2e9 + 0.004 * arrivals
    found = judge(window_of(arrivals), arrivals, ends - arrivals, Steps.of(arrivals, ends))
    assert found.verdict == "stable"


def test_over_a_long_run_the_slowest_overload_is_no_drift() -> None:
    """50/s for an hour at 0.45 % more than is served: stays go from 0.2 to 16.4 s."""
    arrivals = np.arange(180_000, dtype=np.float64) * (1e9 / 50)
    ends = arrivals + 0.2e9 + 0.0045 * arrivals
    found = judge(window_of(arrivals), arrivals, ends - arrivals, Steps.of(arrivals, ends))
    assert found.verdict == "growing"


def test_a_stream_like_clockwork_hides_no_overload() -> None:
    """5/s of 250 ms each for 28 s: a quarter too many, which a Poisson stream of 140 could hide.
    The service varies by a few percent."""
    rng = np.random.default_rng(1)
    arrivals = np.arange(140, dtype=np.float64) * 0.2e9
    ends = np.cumsum(rng.normal(0.25e9, 0.02e9, 140))
    found = judge(window_of(arrivals), arrivals, ends - arrivals, Steps.of(arrivals, ends))
    assert found.verdict == "growing" and "chance explains up to 6%" in found.reason


def test_bursts_are_allowed_for() -> None:
    """Arrivals in bursts (gaps of a coefficient of variation of 3) through a server with time to
    spare: by the Poisson measure, as before, some of such runs would be growing."""
    verdicts = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        arrivals = np.cumsum(rng.gamma(1 / 9, 9 * 0.2e9, 400))
        work = np.full(400, 0.12e9)
        worked = np.cumsum(work)
        ends = worked + np.maximum.accumulate(arrivals - (worked - work))
        found = judge(window_of(arrivals), arrivals, ends - arrivals, Steps.of(arrivals, ends))
        verdicts.append(found.verdict)
    assert verdicts.count("growing") <= 2
