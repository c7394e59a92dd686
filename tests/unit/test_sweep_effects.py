"""What a sweep claims: changes by hand, how often it is wrong when nothing differs, and what it
finds when something does."""

import math

import numpy as np
import pytest

from mmload.sweep.effects import Noise, change, repeats_needed
from mmload.sweep.plan import Work
from mmload.sweep.table import Table
from tests.unit.sweep_samples import noisy, outcomes_of, plan_of, summary_of


def test_a_change_by_hand() -> None:
    """One cell, log differences ln 2 + (-.1, 0, .1): mean ln 2, error .1/sqrt 3, t(.975, 2)."""
    a = [np.array([100.0, 100.0, 100.0])]
    b = [200.0 * np.exp(np.array([-0.1, 0.0, 0.1]))]
    found = change(a, b)
    assert found is not None and found.low is not None and found.high is not None
    assert found.ratio == pytest.approx(2)
    reach = 4.302653 * 0.1 / math.sqrt(3)
    assert found.low == pytest.approx(2 * math.exp(-reach), rel=1e-6)
    assert found.high == pytest.approx(2 * math.exp(reach), rel=1e-6)
    assert found.pairs == 3 and list(found.cells) == pytest.approx([2])
    back = change(b, a)
    assert back is not None and back.ratio == pytest.approx(0.5) and back.p == found.p


def test_cells_of_unlike_noise_use_satterthwaite() -> None:
    """Variances of the means .01/2 and .0004/2, one degree each: df = (.0052)^2 / (.005^2 + ...)"""
    a = [np.array([1.0, 1.0]), np.array([1.0, 1.0])]
    noise = math.sqrt(0.01 / 2), math.sqrt(0.0004 / 2)
    b = [np.exp([-n, n]) for n in noise]
    found = change(a, b)
    assert found is not None and found.half_width is not None
    df = 0.0052**2 / (0.005**2 + 0.0002**2)
    from mmload.analysis.student import critical

    assert found.half_width == pytest.approx(critical(0.95, df) * math.sqrt(0.0052) / 2)


def test_single_repeats_and_gaps() -> None:
    nan = math.nan
    single = change([np.array([100.0])], [np.array([50.0])])
    assert single is not None and single.p is None and single.ratio == pytest.approx(0.5)
    assert change([np.array([1.0, nan])], [np.array([nan, 1.0])]) is None
    gap = change([np.array([1.0, 2.0, nan])], [np.array([2.0, 4.0, 8.0])])
    assert gap is not None and gap.pairs == 2 and gap.ratio == pytest.approx(2)
    assert gap.p is None and gap.low is None  # two that agree are not certainty
    assert change([], []) is None


def test_a_noise_stands_in_for_too_few_pairs() -> None:
    """Two pairs, variance .01 a run: error sqrt(2 x .01 / 2) = .1 with 3 degrees."""
    sides = [np.array([100.0, 100.0])], [np.array([200.0, 200.0])]
    found = change(*sides, Noise(0.01, 3))
    assert found is not None and found.half_width is not None and found.p is not None
    assert found.half_width == pytest.approx(3.182446 * 0.1, rel=1e-6)
    assert 0.005 < found.p < 0.01  # t = 6.93
    unsure = change(*sides, Noise(0.01, 2))
    assert unsure is not None and unsure.p is None


def test_residuals_are_without_points_and_blocks() -> None:
    """log y = point + block + (.1, -.1; -.1, .1): four residuals of .1 with one degree."""
    plan = plan_of(["renderer-workers=1,2"], repeats=2)
    left = {(0, 1): 0.1, (0, 2): -0.1, (1, 1): -0.1, (1, 2): 0.1}
    table = Table(
        plan,
        outcomes_of(plan, lambda p, r: math.exp(3 + p.number + 0.5 * r + left[p.number, r])),
        {},
    )
    noise = table.residual()
    assert noise.df == 1 and noise.variance == pytest.approx(4 * 0.01)


def test_repeats_needed() -> None:
    found = change([np.ones(3)], [np.exp([-0.1, 0.0, 0.1])])
    assert found is not None and found.half_width is not None
    assert repeats_needed(found, 3, 0.1) == math.ceil(3 * (found.half_width / math.log(1.1)) ** 2)
    assert repeats_needed(found, 3, 0.001) is None


SEEDS = 200


def test_axes_without_effect_are_named_winners_in_at_most_5_percent_of_seeds() -> None:
    """A/A: two axes of which neither does anything, noise of 8 %, drift between blocks of 20 %."""
    wrong_axis = wrong_winner = 0
    plan = plan_of(["renderer-workers=1,2,4", "omp-threads=1,2"])
    for seed in range(SEEDS):
        noise = noisy(seed, 0.08)
        made = summary_of(
            plan,
            outcomes_of(plan, lambda p, r, n=noise: n(Work(p.number, r), 100.0)),  # type: ignore[misc]
        )
        wrong_axis += any(e["verdict"] == "effect" for e in made["effects"])
        wrong_winner += made["recommendation"]["verdict"] != "no_difference_shown"
    assert wrong_axis <= 0.05 * SEEDS
    assert wrong_winner <= 0.05 * SEEDS


def test_a_real_effect_is_found_and_the_other_axis_is_not_blamed() -> None:
    """Two workers halve the latency; threads do nothing: 3 repeats, noise of 5 %."""
    plan = plan_of(["renderer-workers=1,2", "omp-threads=1,2"], repeats=4)
    found = blamed = 0
    for seed in range(60):
        noise = noisy(seed, 0.05)
        made = summary_of(
            plan,
            outcomes_of(
                plan,
                lambda p, r, n=noise: n(  # type: ignore[misc]
                    Work(p.number, r), 100.0 if p.set["renderer-workers"] == "2" else 200.0
                ),
            ),
        )
        workers, threads = made["effects"]
        found += workers["verdict"] == "effect" and workers["levels"][0]["ratio"] < 0.6
        blamed += threads["verdict"] == "effect"
    assert found >= 58 and blamed <= 3


def test_no_effect_needs_evidence_not_silence() -> None:
    """Quiet runs show that an axis does nothing; noisy ones of the same axis can't tell."""
    plan = plan_of(["renderer-workers=1,2", "omp-threads=1,2"], repeats=4)

    def verdicts(spread: float) -> list[str]:
        noise = noisy(1, spread)
        made = summary_of(plan, outcomes_of(plan, lambda p, r: noise(Work(p.number, r), 100.0)))
        return [e["verdict"] for e in made["effects"]]

    assert verdicts(0.01) == ["no_effect", "no_effect"]
    assert verdicts(0.3) == ["cant_tell", "cant_tell"]


def test_helping_here_and_hurting_there_is_not_no_effect() -> None:
    """Threads halve the latency with one worker and double it with two: zero on average."""
    plan = plan_of(["renderer-workers=1,2", "omp-threads=1,2"], repeats=4)
    noise = noisy(3, 0.01)

    def ms(workers: str, threads: str) -> float:
        if threads == "1":
            return 100.0
        return 50.0 if workers == "1" else 200.0

    made = summary_of(
        plan,
        outcomes_of(
            plan,
            lambda p, r: noise(
                Work(p.number, r), ms(str(p.set["renderer-workers"]), str(p.set["omp-threads"]))
            ),
        ),
    )
    threads = made["effects"][1]
    assert threads["verdict"] == "cant_tell"
    assert "points both ways" in threads["sentence"]
    assert "at renderer-workers=1" in threads["sentence"]
