"""Sweeps made up from a formula: plans, and outcomes whose objective the test says."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mmload.sweep import axes
from mmload.sweep.axes import Point
from mmload.sweep.figures import Figures, Outcome
from mmload.sweep.plan import Plan, Server, Work
from mmload.sweep.summary import summarise

FACTS = {"mmload": "0", "started_at": "2026-01-01T00:00:00+00:00", "machine": {}, "simulated": ""}


def plan_of(
    settings: list[str], load: dict[str, Any] | None = None, *, repeats: int = 3, **more: Any
) -> Plan:
    design = axes.grid(axes.from_flags(settings, [], load or {}))
    scenarios = tuple(
        {"qps": float(str(p.load.get("qps", 5))), "duration": 20.0} for p in design.points
    )
    return Plan(
        name="sweep",
        server=more.pop("server", Server()),
        axes=design.axes,
        points=design.points,
        scenarios=scenarios,
        repeats=repeats,
        seed=0,
        **more,
    )


def figures_of(objective_ms: float, **more: Any) -> Figures:
    made: dict[str, Any] = {
        "objective_ms": objective_ms,
        "ttft_ms": {"p50": objective_ms / 2, "p90": objective_ms, "p99": objective_ms * 2},
        "e2e_p90_ms": objective_ms + 10,
        "throughput_qps": 5.0,
        "failed_share": 0.0,
        "queue": "stable",
        "growth_per_s": 0.0,
        "phases_ms": {"queueing": 10.0, "cpu": objective_ms - 20, "gpu": 10.0},
        "bottleneck": "processor",
        "bottleneck_title": "processor",
        "capacity_qps": 1000 / objective_ms,
        "utilisation": 0.5,
        "cpu_cores": 1.0,
    }
    return Figures(**(made | more))


def outcomes_of(plan: Plan, objective_ms: Callable[[Point, int], float]) -> list[Outcome]:
    return [
        Outcome(work, f"p{work.point}/r{work.repeat}", "done", "", figures_of(value))
        for work in plan.order()
        if (value := objective_ms(plan.points[work.point], work.repeat))
    ]


def noisy(seed: int, spread: float, block: float = 0.2) -> Callable[[Work, float], float]:
    """Multiplies by noise of its own for each run, and by one that a whole block shares."""
    rng = np.random.default_rng(seed)
    blocks = rng.normal(0, block, 100)
    return lambda work, ms: ms * float(np.exp(blocks[work.repeat] + rng.normal(0, spread)))


def summary_of(plan: Plan, outcomes: list[Outcome]) -> dict[str, Any]:
    return summarise(plan, outcomes, defaults={"renderer-workers": "1"}, facts=FACTS)
