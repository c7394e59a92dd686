"""Everything that a sweep's report says, as one plain object: docs/sweep.md.

In: the plan, an `Outcome` a run, and the server's defaults where they are known. Out: a dictionary
that strict JSON can hold. Pure, so that the report can be made again at any time.
"""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mmload.slo import parse_measure
from mmload.sweep.axes import Point, show
from mmload.sweep.axis_effects import axis_effects
from mmload.sweep.figures import Outcome
from mmload.sweep.pareto import front
from mmload.sweep.plan import Plan
from mmload.sweep.recommend import recommend
from mmload.sweep.table import Table, rounded

SCHEMA: Final = 1


def summarise(
    plan: Plan,
    outcomes: Sequence[Outcome],
    *,
    defaults: Mapping[str, str],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """`facts` are of the folder: version, start, machine, target, what is simulated."""
    table = Table(plan, outcomes, defaults)
    objective = parse_measure(plan.objective, "--objective")
    points = [table.point_data(point) for point in plan.points]
    effects = axis_effects(table, objective.title)
    advice = recommend(table, objective.title)
    by_status = Counter(one.status for one in outcomes)
    planned = len(plan.points) * plan.repeats
    pareto = _pareto(table, points)
    if advice is not None:
        for key in ("setting", "cheapest"):
            number = advice[key]
            if number is not None:
                point = plan.points[next(iter(table.settings[number].points.values()))]
                advice["command" if key == "setting" else "cheapest_command"] = command(plan, point)
    return {
        "schema": SCHEMA,
        "kind": "sweep",
        **facts,
        "name": plan.name,
        "server": shlex.join(plan.server.command) or plan.server.url or "the embedded server",
        "objective": {"measure": str(objective), "title": objective.title},
        "sentence": _sentence(plan, advice, effects, points, len(outcomes), planned),
        "complete": len(outcomes) == planned,
        "planned_runs": planned,
        "runs": {name: by_status.get(name, 0) for name in ("done", "invalid", "failed", "refused")},
        "repeats": plan.repeats,
        "seed": plan.seed,
        "no_effect_within": plan.no_effect_within,
        "noise": rounded(table.noise()),
        "axes": [
            {
                "kind": axis.kind,
                "name": axis.name,
                "values": list(axis.values),
                "varies": axis.varies,
                "reference": table.reference[axis],
            }
            for axis in plan.axes
        ],
        "scenario": _common(plan),
        "points": points,
        "settings": [
            {
                "setting": s.number,
                "label": s.label,
                "points": sorted(s.points.values()),
                "score_ms": rounded(table.score_ms(s)),
                "is_reference": s.is_reference,
            }
            for s in table.settings
        ],
        "effects": effects,
        "no_effect": [e["name"] for e in effects if e["verdict"] == "no_effect"],
        "pareto": pareto,
        "recommendation": advice,
        "definitions": _definitions(plan, objective.title, table),
    }


def command(plan: Plan, point: Point) -> str:
    """The command line that starts the server with a point's setting; empty for a URL."""
    from mmload.sweep.command import server_command

    if plan.server.kind == "url":
        return ""
    base = plan.server.command or ("mmload", "serve")
    return shlex.join(server_command(base, point.set, point.env))


def _common(plan: Plan) -> dict[str, Any]:
    """What the scenarios of all points have in common."""
    first, *others = plan.scenarios
    return {k: v for k, v in first.items() if all(o.get(k) == v and k in o for o in others)}


def _pareto(table: Table, points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Fronts: latency against cost within each load, and latency against throughput of all."""
    fronts: dict[str, Any] = {"cost_title": table.cost_title, "cost": [], "throughput": []}
    if table.cost_title:
        for load in range(len(table.loads)):
            mine = [s.points[load] for s in table.settings if load in s.points]
            rows = [_pair(points[n]["objective_ms"], points[n]["cost"]) for n in mine]
            fronts["cost"].append([mine[i] for i in front(rows)])
    if len(table.loads) > 1:
        rows = [
            _pair(p["objective_ms"], -p["throughput_qps"] if p["throughput_qps"] else None)
            for p in points
        ]
        fronts["throughput"] = [points[i]["point"] for i in front(rows)]
    return fronts


def _pair(a: float | None, b: float | None) -> tuple[float, float] | None:
    return None if a is None or b is None else (a, b)


def _sentence(
    plan: Plan,
    advice: dict[str, Any] | None,
    effects: Sequence[dict[str, Any]],
    points: Sequence[dict[str, Any]],
    ended: int,
    planned: int,
) -> str:
    """The first line of the report."""
    parts = []
    if ended < planned:
        parts.append(f"Not finished: {ended} of {planned} runs.")
    if advice is not None:
        parts.append(advice["headline"])
    elif not any(point["valid_runs"] for point in points):
        parts.append("No run is VALID, so nothing can be said.")
    else:
        parts.append(f"{len(points)} point{'s' if len(points) > 1 else ''} measured.")
    if without := [e["name"] for e in effects if e["verdict"] == "no_effect"]:
        parts.append(f"No effect: {', '.join(without)}.")
    if unknown := [e["name"] for e in effects if e["verdict"] == "cant_tell"]:
        parts.append(f"Can't tell: {', '.join(unknown)}.")
    lost = sum(1 for p in points if p["reasons"] and not p["valid_runs"])
    if lost and ended == planned:
        parts.append(f"{lost} of {len(points)} points without a valid run.")
    return " ".join(parts)


def _definitions(plan: Plan, title: str, table: Table) -> dict[str, str]:
    share = f"{plan.no_effect_within:.0%}"
    reference = "; ".join(f"{a.name} {show(v)}" for a, v in table.reference.items() if a.varies)
    return {
        "order": "repeats are blocks: every point once, in a random order by the seed, then all"
        " again; each run has a server of its own unless a URL was given",
        "figures of a point": "medians over its VALID runs; the run is the unit",
        "effect": f"change of {title} against the reference value ({reference}), as a ratio: mean"
        " over the combinations of the other axes and the repeats of the difference of logarithms"
        " within a block, Student's t with Satterthwaite's degrees of freedom, 95% interval, p"
        " after Holm over all changes of the sweep",
        "no effect": f"no difference shown (p >= .05 after Holm), and the interval of every change"
        f" within +-{share}, and so the change in each combination of the other axes; otherwise"
        " can't tell",
        "recommendation": f"the setting with the lowest geometric mean over the loads of {title};"
        " tested against the next, and against the default with p times the number of other"
        " settings; both p doubled where these are two claims; settings that fail more than 1% of"
        " requests are left out",
        "Pareto front": "of the medians, untested: neighbours on it may differ by chance",
        "capacity": "requests/s that the busiest stage's width and mean service time imply, from"
        " the spans of each run",
        "noise": "standard deviation of the logarithm between repeats of one point, pooled",
    }
