"""Which rate to try next, and when to stop: a pure function of what was tried. The rule:

1. *Verdict of a rate*: the majority of its valid runs; as many for as against is against. A run
   passes if every objective holds and the queue is stable. A queue that "can't tell" is unsure: it
   counts against, but a rate is not judged by a single unsure run, nor by a tie with one.
2. *Bracket*: from the start rate upwards by `factor` while rates pass, downwards while they fail.
   Where the spans predict a capacity, .9 and then 1.1 of it are tried first, in steps of at most 8.
3. *Bisect*: the geometric middle of the highest passing rate below the lowest failing one, and that
   one, until they are no further apart than `precision`.
4. *Confirm*: the lower end, then the upper one, is run again until more than half of `repeats`
   agree. An end whose verdict turns moves the bracket, and the search goes on from 2.

A rate at which the generator, not the server, fell behind (two INVALID runs and no valid one) is
nobody's failure: the search stays below it, and reports it as the generator's limit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Verdict = Literal["pass", "unsure", "fail", "invalid"]

AROUND: Final = (0.9, 1.1)  # of the predicted capacity, where the limit most likely is
MOST_STEP: Final = 8.0  # a prediction may be far off
INVALID_TRIES: Final = 2
UNSURE_TRIES: Final = 5  # runs of a rate after which a tie is against
DIGITS: Final = 3  # of a rate
PILOT: Final = 0.0  # a start that a few requests one at a time have to find


class Trial(NamedTuple):
    """One run at one rate; `predicted_qps` is the capacity that its spans imply."""

    rate: float
    verdict: Verdict
    predicted_qps: float | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """`precision` .05: the ends of the interval are at most 5 % apart."""

    start: float = PILOT
    precision: float = 0.05
    factor: float = 2.0
    repeats: int = 3
    least: float = 0.01
    most: float = 10_000.0


@dataclass(frozen=True, slots=True)
class Bracket:
    """What is known so far. None: no such rate was tried."""

    passing: float | None  # the highest that passes below `failing`
    failing: float | None  # the lowest that fails
    ceiling: float | None  # the lowest that the generator could not hold
    above: tuple[float, ...]  # passing rates above `failing`: the results are not monotone


class Next(NamedTuple):
    """Run this rate, and why."""

    rate: float
    why: Literal["start", "bracket", "bisect", "confirm"]


class Done(NamedTuple):
    """The search has ended: confirmed, or against a limit of its own."""

    why: Literal["confirmed", "least", "most", "generator"]


def bracket(trials: Sequence[Trial]) -> Bracket:
    verdicts = {rate: verdict_of(trials, rate) for rate in {t.rate for t in trials}}
    failing = min((r for r, v in verdicts.items() if v == "fail"), default=None)
    ceiling = min((r for r, v in verdicts.items() if v == "invalid"), default=None)
    passing = [r for r, v in verdicts.items() if v == "pass"]
    below = [r for r in passing if failing is None or r < failing]
    above = sorted(r for r in passing if failing is not None and r > failing)
    return Bracket(max(below, default=None), failing, ceiling, tuple(above))


def verdict_of(trials: Sequence[Trial], rate: float) -> Verdict | None:
    """The majority, pass or fail; "invalid" when the generator could not hold the rate; None: not
    known yet."""
    found = [t.verdict for t in trials if t.rate == rate]
    passed, unsure, failed = (found.count(v) for v in ("pass", "unsure", "fail"))
    against = failed + unsure
    if unsure and (against == passed or (against == 1 and not passed)):
        if passed + against < UNSURE_TRIES:
            return None
    if passed or against:
        return "pass" if passed > against else "fail"
    return "invalid" if len(found) >= INVALID_TRIES else None


def decide(trials: Sequence[Trial], rule: Rule) -> Next | Done:
    """The next rate to run, or that the search is done."""
    if not trials:
        return Next(_round(rule.start), "start")
    for trial in trials:  # one INVALID or unsure run judges nothing
        if verdict_of(trials, trial.rate) is None:
            return Next(trial.rate, "confirm")
    known = bracket(trials)
    # The generator's limit bounds the search from above as a failure does.
    upper = min((r for r in (known.failing, known.ceiling) if r is not None), default=None)
    lower = known.passing
    if lower is not None and upper is not None and lower > upper:
        lower = max(
            (t.rate for t in trials if t.rate < upper and verdict_of(trials, t.rate) == "pass"),
            default=None,
        )
    if upper is None:
        return _up(trials, rule, known)
    if lower is None:
        rate = _round(upper / rule.factor)
        return Next(rate, "bracket") if rate >= rule.least else Done("least")
    middle = _round(math.sqrt(lower * upper))
    if upper / lower > 1 + rule.precision and lower < middle < upper:
        return Next(middle, "bisect")
    if known.failing is None or upper < known.failing:
        return Done("generator")
    for end in (lower, known.failing):
        if not _is_confirmed(trials, end, rule.repeats):
            return Next(end, "confirm")
    return Done("confirmed")


def _up(trials: Sequence[Trial], rule: Rule, known: Bracket) -> Next | Done:
    highest = known.passing
    assert highest is not None  # every rate so far has a verdict, and none of them fails
    if highest >= rule.most:
        return Done("most")
    predicted = next((t.predicted_qps for t in reversed(trials) if t.predicted_qps), None)
    near = (share * predicted for share in AROUND) if predicted is not None else ()
    target = next((rate for rate in map(_round, near) if rate > highest), None)
    rate = highest * rule.factor if target is None else min(target, MOST_STEP * highest)
    return Next(min(_round(rate), rule.most), "bracket")


def _is_confirmed(trials: Sequence[Trial], rate: float, repeats: int) -> bool:
    """More than half of `repeats` runs agree, so that the rest could not change the verdict."""
    found = [t.verdict for t in trials if t.rate == rate]
    passed, failed = found.count("pass"), found.count("fail") + found.count("unsure")
    return max(passed, failed) > repeats / 2 or passed + failed >= repeats


def _round(rate: float) -> float:
    """Three digits: nobody asks for 7.3891 requests a second."""
    return float(f"{rate:.{DIGITS}g}")
