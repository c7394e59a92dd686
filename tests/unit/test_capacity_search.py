"""The search against servers whose limit is known: exact, noisy, queueing, and not the server's."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from mmload.analysis.growth import judge, window_of
from mmload.analysis.queues import Steps
from mmload.capacity.search import (
    Bracket,
    Done,
    Next,
    Rule,
    Trial,
    Verdict,
    bracket,
    decide,
    verdict_of,
)

MOST_RUNS = 80


def search(
    server: Callable[[float], Verdict], rule: Rule, predicted: float | None = None
) -> tuple[list[Trial], Done]:
    trials: list[Trial] = []
    for _ in range(MOST_RUNS):
        step = decide(trials, rule)
        if isinstance(step, Done):
            return trials, step
        trials.append(Trial(step.rate, server(step.rate), predicted))
    raise AssertionError(f"no end after {MOST_RUNS} runs: {trials}")


@pytest.mark.parametrize("limit", [0.3, 0.97, 1.0, 7.7, 10.0, 33.3, 230.0, 1234.0])
@pytest.mark.parametrize("predicted", [None, 0.5, 1.0, 3.0])
def test_the_interval_holds_the_limit(limit: float, predicted: float | None) -> None:
    """Whether the spans say nothing, half of it, all, or three times too much."""
    capacity = None if predicted is None else predicted * limit
    trials, done = search(lambda r: "pass" if r <= limit else "fail", Rule(start=1.0), capacity)
    known = bracket(trials)
    assert done.why == "confirmed"
    assert known.passing is not None and known.failing is not None
    assert known.passing <= limit < known.failing <= known.passing * 1.06  # 5 %, and 3 digits
    for end, verdict in ((known.passing, "pass"), (known.failing, "fail")):
        assert sum(t.rate == end and t.verdict == verdict for t in trials) >= 2  # of 3


def test_a_right_prediction_saves_runs() -> None:
    def server(rate: float) -> Verdict:
        return "pass" if rate <= 230 else "fail"

    with_spans, _ = search(server, Rule(start=1.0), 230.0)
    without, _ = search(server, Rule(start=1.0))
    assert [t.rate for t in with_spans[:5]] == [1.0, 8.0, 64.0, 207.0, 253.0]
    assert len(with_spans) < len(without)


def test_limits_of_the_search_itself() -> None:
    trials, done = search(lambda _: "pass", Rule(start=1.0, most=100.0))
    assert done.why == "most" and bracket(trials).passing == 100.0
    trials, done = search(lambda _: "fail", Rule(start=1.0, least=0.1))
    assert done.why == "least" and bracket(trials) == Bracket(None, 0.125, None, ())


def test_a_generator_that_falls_behind_is_no_failure_of_the_server() -> None:
    trials, done = search(lambda r: "pass" if r <= 30 else "invalid", Rule(start=1.0))
    known = bracket(trials)
    assert done.why == "generator" and known.failing is None
    assert known.passing is not None and known.ceiling is not None
    assert known.passing <= 30 < known.ceiling <= known.passing * 1.06
    # one hiccup is tried again and forgotten
    seen: list[float] = []

    def hiccup(rate: float) -> Verdict:
        seen.append(rate)
        if len(seen) == 3:
            return "invalid"
        return "pass" if rate <= 10 else "fail"

    trials, done = search(hiccup, Rule(start=1.0))
    assert done.why == "confirmed" and seen[2] == seen[3]


def test_verdicts_are_majorities_and_a_tie_is_against() -> None:
    def of(*verdicts: Verdict) -> Verdict | None:
        return verdict_of([Trial(1.0, v) for v in verdicts], 1.0)

    assert of("pass") == "pass" and of("pass", "fail") == "fail"
    assert of("pass", "fail", "pass") == "pass"
    assert of("invalid") is None and of("invalid", "invalid") == "invalid"
    assert of("invalid", "pass") == "pass"
    assert of("unsure") is None and of("unsure", "unsure") == "fail"
    assert of("unsure", "pass") is None and of("unsure", "pass", "pass") == "pass"
    assert of("unsure", "fail") == "fail" and of("pass", "unsure", "unsure") == "fail"


def test_an_end_that_turns_moves_the_bracket() -> None:
    """10 fails by chance, then passes twice: the search goes on above it."""
    trials = [Trial(5.0, "pass"), Trial(10.0, "fail")]
    rule = Rule(start=5.0, precision=1.0)
    assert decide(trials, rule) == Next(5.0, "confirm")
    trials.append(Trial(5.0, "pass"))
    assert decide(trials, rule) == Next(10.0, "confirm")
    trials += [Trial(10.0, "pass"), Trial(10.0, "pass")]
    assert decide(trials, rule) == Next(20.0, "bracket")


def test_results_that_are_not_monotone_are_kept_and_said() -> None:
    trials = [Trial(1.0, "pass"), Trial(2.0, "fail"), Trial(4.0, "pass")]
    assert bracket(trials) == Bracket(1.0, 2.0, None, (4.0,))


def test_noise_around_the_limit() -> None:
    """A run near the limit passes by chance: logistic in the logarithm, 2 % wide."""
    hits, runs = 0, []
    for seed in range(200):
        rng = np.random.default_rng(seed)

        def server(rate: float, rng: np.random.Generator = rng) -> Verdict:
            chance = 1 / (1 + math.exp(math.log(rate / 10) / 0.02))
            return "pass" if rng.random() < chance else "fail"

        trials, done = search(server, Rule(start=1.0))
        known = bracket(trials)
        assert done.why == "confirmed" and known.passing and known.failing
        hits += known.passing <= 10.3 and known.failing >= 9.7
        runs.append(len(trials))
    assert hits >= 185 and np.percentile(runs, 90) <= 16


SERVICE_S = 0.05  # one worker: 20 requests/s
REQUESTS = 160


def _queue(rate: float, rng: np.random.Generator | None, limit_s: float) -> Verdict:
    """A single server with fixed service, Lindley's recursion; constant or Poisson arrivals."""
    gaps = np.full(REQUESTS, 1 / rate) if rng is None else rng.exponential(1 / rate, REQUESTS)
    arrivals = np.cumsum(gaps)
    waits = np.zeros(REQUESTS)
    for i in range(1, REQUESTS):
        waits[i] = max(0.0, waits[i - 1] + SERVICE_S - gaps[i])
    stays_ns = (waits + SERVICE_S) * 1e9
    arrivals_ns = arrivals * 1e9
    growth = judge(
        window_of(arrivals_ns), arrivals_ns, stays_ns, Steps.of(arrivals_ns, arrivals_ns + stays_ns)
    )
    p90_s = np.sort(stays_ns)[math.ceil(0.9 * REQUESTS) - 1] / 1e9
    return "pass" if p90_s < limit_s and growth.verdict == "stable" else "fail"


def test_a_d_d_1_queue_carries_what_its_worker_can() -> None:
    trials, done = search(lambda r: _queue(r, None, 0.5), Rule(start=2.0), 20.0)
    known = bracket(trials)
    assert done.why == "confirmed" and known.passing and known.failing
    assert known.passing <= 20.0 < known.failing <= known.passing * 1.06


def test_an_m_d_1_queue_ends_where_its_objective_does() -> None:
    """p90 of the time in the system below 150 ms. Truth by a long simulation of the same queue:
    the rate at which its p90 is 150 ms. Intervals of 160 requests scatter around it."""

    def long_p90(rate: float) -> float:
        rng = np.random.default_rng(0)
        steps = SERVICE_S - rng.exponential(1 / rate, 400_000)
        walk = np.concatenate([[0.0], np.cumsum(steps)])
        waits = walk - np.minimum.accumulate(walk)  # Lindley, solved
        return float(np.quantile(waits + SERVICE_S, 0.9))

    low, high = 1.0, 20.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if long_p90(middle) < 0.15 else (low, middle)
    truth = (low + high) / 2
    assert 11 < truth < 16  # utilisation .55 to .8
    middles = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        trials, done = search(lambda r, g=rng: _queue(r, g, 0.15), Rule(start=2.0), 20.0)  # type: ignore[misc]
        known = bracket(trials)
        assert done.why == "confirmed" and known.passing and known.failing
        middles.append(math.sqrt(known.passing * known.failing))
    assert abs(float(np.median(middles)) / truth - 1) < 0.12
    assert sum(abs(m / truth - 1) < 0.3 for m in middles) >= 36
