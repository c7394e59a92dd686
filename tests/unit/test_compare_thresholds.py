"""`--fail-if`: every form, its limits, and what it may not let through."""

from typing import Any

import pytest

from mmload.analysis.metrics import HEADLINE, metric
from mmload.compare.build import build
from mmload.compare.thresholds import judge, parse
from mmload.errors import UsageError
from mmload.report import compare_tables
from tests.unit import compare_samples as samples

STAGES = ("processor", "prefill")


def judged(text: str, *, runs: int = 5, swap: bool = False, **how: Any) -> dict[str, Any]:
    """The threshold on before -> after, or with `swap` on the way back."""
    one = parse(text, STAGES)
    sides = samples.two(runs)[:: -1 if swap else 1]
    made = build(sides, [metric(name) for name in HEADLINE], [one.metric])
    (found,) = judge([one], made, **how)
    return found


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("ttft:p90 > +5%", False),  # 15.3 s became 210 ms
        ("ttft:p90 < -2%", True),
        ("ttft:p90 > 210.3ms", True),  # the median run: 210 x 1.002 = 210.42
        ("ttft:p90 > 210.5 ms", False),
        ("ttft:p90 <= 0.3s", True),
        ("ttft:p90>=210420us", True),
        ("processor:mean > 100ms", False),
        ("achieved < -2%", False),
        ("achieved < 5/s", False),
        ("growth > 0.5", False),
        ("in-flight >= 3", True),
        ("failed > 0", False),
        ("failed > 1%", False),
        ("tokens < 50", False),
    ],
)
def test_thresholds(text: str, failed: bool) -> None:
    assert judged(text)["failed"] is failed


def test_the_way_back_fails() -> None:
    found = judged("ttft:p90 > +5%", swap=True)
    assert found["failed"] and found["shown"] is True and found["in"] == "%"
    assert found["value"] == pytest.approx(100 * (15280 / 210 - 1))
    assert judged("ttft:p90 > +5%", swap=True, runs=1)["failed"]  # no test is needed


def test_significant_asks_for_a_shown_change() -> None:
    assert judged("ttft:p90 > +5%", swap=True, significant=True)["failed"]
    assert not judged("achieved >= +0%", significant=True)["failed"]  # 0 % change, not shown
    assert judged("achieved >= +0%")["failed"]


def test_one_failing_run_of_five_is_a_failure() -> None:
    one = parse("failed > 0", STAGES)
    share = parse("failed > 1%", STAGES)
    sides = samples.two(5)
    sides[1].runs[3].summary["failed"] = {"timeout": 3}
    made = build(sides, [metric("ttft:p90")], [one.metric, share.metric])
    found = judge([one, share], made)
    assert [(f["value"], f["failed"]) for f in found] == [(3.0, True), (0.02, True)]


def test_a_metric_without_a_value_fails() -> None:
    sides = samples.two(1)
    sides[1].runs[0].summary.update({key: None for key in samples.LATENCIES})
    one = parse("ttft:p99 > +5%", STAGES)
    (found,) = judge([one], build(sides, [one.metric]))
    assert found["failed"] and found["value"] is None


def test_every_side_but_the_base_is_judged() -> None:
    one = parse("ttft:p90 > -50%", STAGES)
    found = judge([one], build(samples.three(5), [one.metric]))
    assert [(f["side"], f["failed"]) for f in found] == [
        ("stock + allocator", True),
        ("owned", False),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ttft:p99", "is not a threshold"),
        ("ttft:p99 = 3ms", "is not a threshold"),
        ("> 3", "is not a threshold"),
        ("ttft:p98 > 3ms", "ttft needs one of mean, p50, p90, p99, p99.9, max"),
        ("ttft > 3ms", "ttft needs one of"),
        ("failed:p90 > 3", "failed is one number a run"),
        ("proc:p90 > 3ms", "no metric 'proc': allowed are achieved, failed"),
        ("proc:p90 > 3ms", "lag, processor, prefill"),
        ("ttft:p99 > 500", "TTFT p99 is a time"),
        ("ttft:p99 > 5%", "is 5% a change?"),
        ("growth > +5%", "often 0"),
        ("failed > 3ms", "not ms"),
        ("achieved < 3ms", "not ms"),
    ],
)
def test_errors_name_what_is_allowed(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, STAGES)
    assert words in caught.value.message and text in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("%", 10.4, "+10.40%"),  # the tables' "+10%" would seem to pass `> +10%`
        ("%", -2.04, "-2.04%"),
        ("ms", 500.4, "500.4 ms"),
        ("ms", 15_280.0, "15,280 ms"),
        ("share", 0.0104, "1.04%"),
        ("requests", 0.5, "0.5"),
        ("requests/s", 4.9986, "4.999/s"),
        ("tokens/s", 50.0, "50/s"),
    ],
)
def test_what_was_judged_is_shown_with_the_digits_that_decide(
    unit: str, value: float, text: str
) -> None:
    one = {"threshold": "x > 1", "side": "b", "value": value, "in": unit}
    assert compare_tables.threshold({"sides": [{}, {}]}, one) == f"x > 1: {text}"


def test_a_closed_loop_has_no_growth_to_judge() -> None:
    sides = samples.two(1)
    for side in sides:
        for run in side.runs:
            run.summary["run"]["load_mode"] = "closed"
    one = parse("growth > 0.5", STAGES)
    with pytest.raises(UsageError, match="closed loop, which cannot grow a queue"):
        judge([one], build(sides, [one.metric]))
