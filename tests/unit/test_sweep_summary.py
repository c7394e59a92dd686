"""What a sweep's report says of made-up runs, and that every format says it."""

import json
from typing import Any

from mmload.report.sweep_html import render_sweep_html
from mmload.report.sweep_markdown import render_sweep_markdown
from mmload.report.sweep_terminal import render_sweep_text
from mmload.sweep.figures import Outcome
from mmload.sweep.pareto import front
from mmload.sweep.plan import Plan, Server
from tests.unit.sweep_samples import figures_of, noisy, outcomes_of, plan_of, summary_of

SETTINGS = ["renderer-workers=1,2", "omp-threads=1,2"]


def _made(plan: Plan, spread: float = 0.01) -> dict[str, Any]:
    noise = noisy(5, spread)

    def ms(point: Any, repeat: int) -> float:
        from mmload.sweep.plan import Work

        workers = int(point.set["renderer-workers"])
        qps = float(point.load.get("qps", 5))
        return noise(Work(point.number, repeat), 200.0 / workers * qps / 5)

    return summary_of(plan, outcomes_of(plan, ms))


def test_the_winner_its_margins_and_the_command_that_sets_it() -> None:
    made = _made(plan_of(SETTINGS, repeats=4))
    advice = made["recommendation"]
    assert advice["verdict"] == "beats_default"  # the threads of the best are a matter of chance
    assert advice["label"].startswith("renderer-workers=2, omp-threads=")
    assert 0.48 < advice["reference"]["ratio"] < 0.52
    assert advice["reference"]["label"] == "renderer-workers=1, omp-threads=1"
    assert made["sentence"].startswith(f"Use {advice['label']}, or one that is not shown")
    assert "No effect: omp-threads." in made["sentence"]
    assert advice["command"].startswith("mmload serve --renderer-workers=2 --omp-threads=")
    assert made["no_effect"] == ["omp-threads"]
    assert [e["verdict"] for e in made["effects"]] == ["effect", "no_effect"]
    # the cheapest of those not shown to be slower has one thread
    assert made["settings"][advice["cheapest"]]["label"] == "renderer-workers=2, omp-threads=1"
    assert made["pareto"]["cost_title"] == "renderer-workers x omp-threads"


def test_one_axis_with_a_clear_winner() -> None:
    made = _made(plan_of(SETTINGS[:1], repeats=4))
    assert made["recommendation"]["verdict"] == "wins"
    assert made["sentence"].startswith("Use renderer-workers=2: TTFT p90 ")
    assert "against the next, the default (renderer-workers=1" in made["sentence"]


def test_loads_are_averaged_and_show_throughput_against_latency() -> None:
    plan = plan_of(SETTINGS[:1], {"qps": "2,5"}, repeats=4)
    made = _made(plan)
    assert "geometric mean over 2 loads" in made["recommendation"]["sentence"]
    assert [len(s["points"]) for s in made["settings"]] == [2, 2]
    assert len(made["pareto"]["cost"]) == 2  # a front a load
    assert {e["name"]: e["verdict"] for e in made["effects"]}["qps"] == "effect"


def test_points_that_failed_are_results_with_reasons() -> None:
    plan = plan_of(["renderer-workers=1,2,4"], repeats=2)
    outcomes = [o for o in outcomes_of(plan, lambda p, r: 100.0 + r) if o.work.point != 2]
    outcomes += [Outcome(w, "f", "refused", "no such value") for w in plan.order() if w.point == 2]
    made = summary_of(plan, outcomes)
    assert made["runs"] == {"done": 4, "invalid": 0, "failed": 0, "refused": 2}
    assert made["points"][2]["reasons"] == ["refused: no such value"]
    assert made["points"][2]["objective_ms"] is None
    assert "1 of 3 points without a valid run" in made["sentence"]
    assert made["settings"][2]["score_ms"] is None
    assert "no such value" in render_sweep_text(made, 80)
    unfinished = summary_of(plan, outcomes[:3])
    assert unfinished["sentence"].startswith("Not finished: 3 of 6 runs.")


def test_a_setting_that_drops_requests_is_not_recommended_for_being_fast() -> None:
    plan = plan_of(["renderer-workers=1,2"], repeats=3)
    outcomes = []
    for work in plan.order():
        fast = work.point == 1
        figures = figures_of(10.0 if fast else 100.0, failed_share=0.2 if fast else 0.0)
        outcomes.append(Outcome(work, "f", "done", "", figures))
    made = summary_of(plan, outcomes)
    assert made["settings"][1]["score_ms"] is None and made["recommendation"] is None


def test_every_format_shows_the_same_and_json_is_strict() -> None:
    made = _made(
        plan_of(SETTINGS, {"qps": "2,5"}, repeats=3, server=Server(command=("srv", "<x>")))
    )
    json.dumps(made, allow_nan=False)
    html = render_sweep_html(made)
    assert (
        "<x>" not in html.replace("&lt;x&gt;", "")
        and "chart-heat1" in html
        and "chart-loads" in html
    )
    for text in (render_sweep_text(made, 80), render_sweep_markdown(made)):
        assert "renderer-workers" in text and "no effect" in text
    for width in (80, 120):
        assert max(map(len, render_sweep_text(made, width).splitlines())) <= width
    empty = summary_of(plan_of(SETTINGS), [])
    assert "No run is VALID" in empty["sentence"]
    assert render_sweep_html(empty) and render_sweep_text(empty, 80)


def test_the_pareto_front() -> None:
    points = [(10.0, 1.0), (5.0, 2.0), (6.0, 2.0), (5.0, 3.0), (1.0, 9.0), None, (10.0, 1.0)]
    assert front(points) == [4, 1, 0, 6]
    assert front([]) == []
