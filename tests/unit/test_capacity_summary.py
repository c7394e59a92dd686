"""What a capacity report says of made-up runs: the interval, the knee, the prediction in words."""

import json
from typing import Any

import pytest

from mmload.analysis.objectives import Held
from mmload.capacity.curve import curve, knee
from mmload.capacity.judge import Rate, judge
from mmload.capacity.predict import predicted
from mmload.capacity.search import Verdict, bracket
from mmload.capacity.state import Asked
from mmload.capacity.summary import summarise
from mmload.records import Outcome, RecordTable
from mmload.report.capacity_html import render_capacity_html
from mmload.report.capacity_markdown import render_capacity_markdown
from mmload.report.capacity_terminal import render_capacity_text
from mmload.slo import parse_slo
from tests.unit.analysis_samples import record

SLO = parse_slo("ttft:p99<500ms")


def rate_of(
    rate: float,
    verdict: Verdict,
    p90_ms: float = 100.0,
    *,
    service_ms: float = 50.0,
    stage: str = "processor",
    reasons: tuple[str, ...] = (),
) -> Rate:
    capacity = 1000 / service_ms
    summary: dict[str, Any] = {
        "run": {"simulated": ""},
        "sent": 160,
        "ok": 160,
        "valid": verdict != "invalid",
        "ttft_ms": {"p50": p90_ms / 2, "p90": p90_ms, "p99": p90_ms * 2},
        "e2e_ms": {"p50": p90_ms, "p90": p90_ms * 2, "p99": p90_ms * 3},
        "queue": {"verdict": "stable" if verdict == "pass" else "growing", "growth_per_s": 0.1},
        "bottleneck": {
            "stage": stage,
            "utilisation": rate / capacity,
            "capacity_qps": capacity,
            "width": 1,
        },
        "stages": {stage: {"title": stage}},
    }
    held = (Held(SLO, p90_ms * 2, verdict == "pass"),)
    good = 1.0 if verdict == "pass" else 0.5
    return Rate(rate, "bisect", f"r-{rate:g}", verdict, reasons, held, rate * good, good, summary)


def _predicted(rates: list[Rate]) -> dict[str, Any]:
    found = predicted(rates, bracket([one.trial for one in rates]))
    assert found is not None
    return found


def test_a_prediction_within_the_interval() -> None:
    found = _predicted([rate_of(19.5, "pass"), rate_of(20.5, "fail")])
    assert (found["capacity_qps"], found["at_rate"], found["service_ms"]) == (20.0, 19.5, 50.0)
    assert "within the interval found" in found["sentence"]


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        (
            [rate_of(10, "pass"), rate_of(11, "fail", reasons=("TTFT p99 is 600 ms, the limit",))],
            "ends the rate earlier: waiting grows long before utilisation 1 (0.55 at",
        ),
        (
            [rate_of(10, "pass"), rate_of(12, "fail", service_ms=83.0)],
            "under load the same work takes 83 ms",
        ),
        (
            [rate_of(10, "pass"), rate_of(12, "fail", stage="prefill")],
            "another stage limits: the prefill",
        ),
        ([rate_of(25, "pass"), rate_of(26, "fail")], "More was carried"),
        ([rate_of(10, "pass")], "No rate failed"),
    ],
)
def test_the_difference_is_explained(rates: list[Rate], words: str) -> None:
    assert words in _predicted(rates)["sentence"]


def test_what_an_engine_can_carry_is_an_interval() -> None:
    """70 ms alone on the device: 14.3/s at most; served over its busy time: 11.4/s at least."""

    def engine(
        rate: float, verdict: Verdict, least_qps: float, reasons: tuple[str, ...] = ()
    ) -> Rate:
        one = rate_of(rate, verdict, service_ms=70.0, stage="encoder", reasons=reasons)
        limit: dict[str, Any] = one.summary["bottleneck"]
        limit |= {"title": "engine (vision encoder, prefill)", "capacity_least_qps": least_qps}
        return one

    grows = ("the queue grows by 0.2/s",)
    found = _predicted([engine(11.5, "pass", 11.4), engine(12, "fail", 11.7, grows)])
    assert (found["capacity_least_qps"], found["service_ms"]) == (11.4, pytest.approx(70.0))
    assert found["sentence"] == (
        "The spans predict 11.4 to 14.3/s: the engine (vision encoder, prefill) takes 70 ms of 1"
        " worker. The interval found agrees: the queue's own limit was reached."
    )
    slow = ("TPOT p99 is 41 ms, the limit 30 ms",)
    tpot = _predicted([engine(2, "pass", 2.0), engine(2.1, "fail", 2.1, slow)])["sentence"]
    assert "The objective ends the rate earlier" in tpot and "(0.15 at the lowest" in tpot
    late = _predicted([engine(9, "pass", 11.4), engine(9.4, "fail", 11.7)])
    assert "Less was carried" in late["sentence"]
    assert engine(9, "pass", 10.0).trial.predicted_qps == pytest.approx((10 * 1000 / 70) ** 0.5)


@pytest.mark.parametrize(
    ("ok", "verdict"),
    [(0, "fail"), (3, "invalid")],
    ids=["nothing succeeds", "some do, and the generator fell behind"],
)
def test_a_rate_at_which_nothing_succeeds_fails(ok: int, verdict: str) -> None:
    """Whatever the generator did: else a dead server would be called its limit."""
    made = dict(rate_of(10, "invalid").summary) | {
        "ok": ok,
        "sent": 5,
        "interrupted": False,
        "schedule_s": 1.0,
        "invalid_reasons": ["late"],
    }
    records = [
        record(i, i, i + 10, outcome=Outcome.ok if i < ok else Outcome.timeout) for i in range(5)
    ]
    found = judge(10, "bracket", "r001", RecordTable.of(records), made, (SLO,))
    assert found.verdict == verdict
    assert found.reasons == (("no request succeeded",) if not ok else ("late",))


def test_no_spans_no_prediction() -> None:
    assert predicted([], bracket([])) is None


def test_the_knee_is_where_p90_passes_twice_its_first_value() -> None:
    rates = [
        *(rate_of(5, "pass", 100), rate_of(5, "pass", 110), rate_of(5, "pass", 90)),
        *(rate_of(10, "pass", 150), rate_of(15, "pass", 199), rate_of(18, "fail", 201)),
        rate_of(16, "invalid", 9999),
    ]
    rows = curve(rates, "ttft")
    assert [(row["rate"], row["runs"], row["p90_ms"]) for row in rows] == [
        (5, 3, 100), (10, 1, 150), (15, 1, 199), (18, 1, 201)
    ]  # fmt: skip
    assert knee(rows) == {"above": 15, "up_to": 18, "p90_ms": 200}
    assert knee(rows[:3]) is None and knee([]) is None


def _asked(**more: Any) -> Asked:
    made: dict[str, Any] = {
        "started_at": "2026-01-01T00:00:00+00:00",
        "server": "mmload serve <b>",
        "slos": [str(SLO)],
        "scenario": {"frames": [15], "size": ["854x480"], "arrival": "poisson"},
        "start": 10.0,
        "precision": 0.05,
        "factor": 2.0,
        "repeats": 3,
        "requests_a_rate": 160,
        "least_s": 10.0,
        "ended": "confirmed",
    }
    return Asked(**(made | more))


@pytest.mark.parametrize(
    ("rates", "more", "sentence"),
    [
        (
            [rate_of(19.5, "pass"), rate_of(20.4, "fail")],
            {},
            "Capacity is 19.5 to 20.4 requests/s with ttft:p99<500ms and a stable queue.",
        ),
        (
            [rate_of(19.5, "pass"), rate_of(20.4, "fail")],
            {"ended": "time_budget", "at_least": 20.0},
            "a stable queue, not confirmed. Asked for 20/s: NOT reached.",
        ),
        (
            [rate_of(10, "pass"), rate_of(20, "invalid"), rate_of(20, "invalid")],
            {"ended": "generator", "at_least": 10.0},
            "the generator could not hold 20, which is no failure of the server. Asked for 10/s:"
            " reached.",
        ),
        (
            [rate_of(1, "pass"), rate_of(2, "fail"), rate_of(4, "pass")],
            {},
            "Not monotone: 4 passed although 2 failed.",
        ),
        ([rate_of(1, "fail")], {"ended": "least"}, "No rate tried meets ttft:p99<500ms"),
        ([], {"ended": "interrupted"}, "Nothing was measured."),
    ],
)
def test_the_first_sentence_and_every_format(
    rates: list[Rate], more: dict[str, Any], sentence: str
) -> None:
    made = summarise(_asked(**more), [SLO], rates)
    assert sentence in made["sentence"]
    json.dumps(made, allow_nan=False)
    html = render_capacity_html(made)
    assert "<b>" not in html.split("<main>")[1].split('class="subtitle"')[1].split("</p>")[0]
    assert "chart-goodput" in html or not rates
    assert render_capacity_markdown(made).startswith("**")
    for width in (80, 120):
        assert max(map(len, render_capacity_text(made, width).splitlines())) <= width
