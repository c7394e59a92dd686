"""The comparison's page: well-formed, self-contained, with all sides on the same axes."""

import json
import re
from typing import Any

import pytest

from mmload.analysis.metrics import HEADLINE, metric
from mmload.compare.build import build
from mmload.report import compare_charts as charts
from mmload.report.compare_html import render_html
from tests.unit import compare_samples as samples
from tests.unit import report_samples
from tests.unit.test_report_html import Page

FAMILY = [metric(name) for name in HEADLINE]
SERIES: dict[str, Any] = {
    "queue": {"time_s": [0.0, 0.2, 1.0], "backlog": [1, 2, 0]},
    "curve": {
        "ttft": {"percent": [0.0, 50.0, 99.0], "ms": [100.0, 200.0, 1000.0]},
        "e2e": {"percent": [0.0, 50.0, 99.0], "ms": [150.0, 250.0, 1050.0]},
    },
    "latency": {"time_s": [0.0, 0.2], "ttft_ms": [100.0, None], "e2e_ms": [1.0, 2.0], "class": []},
}


def made(case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    sides = {"one": samples.two(1), "six": samples.two(6), "three": samples.three(6)}[case]
    return build(sides, FAMILY), {side.label: [SERIES] * len(side.runs) for side in sides}


@pytest.mark.parametrize("case", ["one", "six", "three"])
def test_well_formed_and_complete(case: str) -> None:
    comparison, series = made(case)
    page = Page(render_html(comparison, series))
    assert comparison["sentence"] in page.text
    drawn = {"queue", "latency", "ttft", "e2e", "split"} | ({"runs"} if case != "one" else set())
    assert set(page.figures()) == drawn
    ids = {attrs.get("id") for _, attrs in page.elements}
    assert {f"chart-{name}" for name in drawn} <= ids
    assert not [a for _, a in page.elements if str(a.get("src") or a.get("href") or "").strip("#")]


def test_all_sides_on_the_same_axes_linear_and_log() -> None:
    comparison, series = made("three")
    for name, one in charts.figures(comparison, series).items():
        if name == "split":
            assert len(one["data"][0]["y"]) == 4 * 3  # mean, p50, p90, p99 of three sides
            continue
        axes = {trace.get("yaxis", "y") for trace in one["data"]}
        assert axes == {"y", "y2"} and one["layout"]["yaxis2"]["type"] == "log"
        assert one["layout"].get("yaxis", {}).get("type") != "log"
        for panel in axes:
            here = [t for t in one["data"] if t.get("yaxis", "y") == panel]
            assert {t["name"] for t in here} == {"stock", "stock + allocator", "owned"}
        legend = [t["name"] for t in one["data"] if t.get("showlegend", True)]
        assert sorted(legend) == ["owned", "stock", "stock + allocator"]  # each once


def test_the_middle_run_is_strong_and_the_others_are_faint() -> None:
    comparison, series = made("six")
    lines = charts.figures(comparison, series)["ttft"]["data"]
    strong = [t for t in lines if t["opacity"] == 1 and "yaxis" not in t]
    assert [t["name"] for t in strong] == ["before", "after"]
    assert strong[0]["line"]["color"] != strong[1]["line"]["color"]
    assert strong[0]["line"]["dash"] != strong[1]["line"]["dash"]
    assert len([t for t in lines if "yaxis" not in t]) == 12
    assert strong[0]["x"] == [1.0, 2.0, 100.0] and strong[0]["y"] == [100.0, 200.0, 1000.0]


def test_the_log_panel_of_the_queue_counts_from_one() -> None:
    comparison, series = made("one")
    linear, _, log, _ = charts.figures(comparison, series)["queue"]["data"]
    assert (linear["y"], log["y"]) == ([1, 2, 0], [2, 3, 1])


def test_nothing_is_said_of_the_queue_of_a_closed_loop() -> None:
    """It sets itself how many are in the system: a curve of that, or its growth, means nothing."""
    sides = samples.two(6)
    for side in sides:
        for run in side.runs:
            run.summary["run"]["load_mode"] = "sequential"
    comparison = build(sides, FAMILY)
    assert "growth" not in {row["name"] for row in comparison["metrics"]}
    assert "queue" not in comparison["sentence"]
    series = {side.label: [SERIES] * len(side.runs) for side in sides}
    page = Page(render_html(comparison, series))
    assert "queue" not in page.figures() and "latency" in page.figures()
    assert "Requests over time" in page.text and "cannot be judged" not in page.text


def test_runs_without_records_have_no_curves_and_the_others_go_on() -> None:
    comparison, series = made("one")
    figures = charts.figures(comparison, series | {"after": [None]})
    assert {t["name"] for t in figures["ttft"]["data"]} == {"before"}
    none = charts.figures(comparison, {"before": [None], "after": [None]})
    assert set(none) == {"split"}
    assert Page(render_html(comparison, {})).text


def test_a_failed_threshold_is_red_and_said_in_words() -> None:
    comparison, series = made("one")
    judged = {
        "threshold": "ttft:p99 > +5%",
        "side": "after",
        "metric": "ttft:p99",
        "value": 12.0,
        "in": "%",
        "shown": None,
        "failed": True,
    }
    page = Page(render_html(comparison | {"thresholds": [judged]}, series))
    assert "\u2717 FAILED ttft:p99 > +5%: +12.00%" in page.text
    classes = [attrs.get("class") for _, attrs in page.elements]
    assert "verdict invalid" in classes
    fine = Page(render_html(comparison | {"thresholds": [judged | {"failed": False}]}, series))
    assert "verdict valid" in [attrs.get("class") for _, attrs in fine.elements]


def test_names_from_elsewhere_are_text() -> None:
    sides = samples.two(2)
    sides[1].label = report_samples.EVIL
    sides[1].runs[0].summary["run"]["model"] = report_samples.EVIL
    source = render_html(build(sides, FAMILY), {report_samples.EVIL: [SERIES] * 2})
    page = Page(source)
    assert len([1 for tag, _ in page.elements if tag == "script"]) == 3
    assert not re.search("[\x00\x1b]", source)
    assert json.dumps(page.figures())


@pytest.mark.parametrize(
    ("values", "few"), [([550.0, 630.0], True), ([3.0, 9.0], True), ([9.0, 70.0], False)]
)
def test_a_narrow_log_panel_has_ticks(values: list[float], few: bool) -> None:
    """Plotly sets even ticks itself where our 1, 2, 5 would leave the axis bare."""
    drawn = [{"y": values}]
    ticks = charts._panels({}, "ms", "ms", drawn)["yaxis2"].get("tickvals")
    assert (ticks is None) == few
