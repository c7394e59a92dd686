"""A sweep's summary in words and rows, the same for all formats.

In: the object of docs/sweep.md. Out: plain strings, unescaped and without layout.
"""

from typing import Any, Final

from mmload.report import numbers
from mmload.report.fields import Fact, get

Section = dict[str, Any]

VERDICTS: Final = {"effect": "effect", "no_effect": "no effect", "cant_tell": "can't tell"}
QUEUES: Final = {"stable": "stable", "growing": "growing", "cant_tell": "can't tell"}
MOST_SLICES: Final = 6


def facts(made: Section) -> list[Fact]:
    """What was done, to what, where."""
    runs = made["runs"]
    planned = made["planned_runs"]
    counted = [f"{runs['done']} valid"]
    counted += [f"{runs[name]} {name}" for name in ("invalid", "failed", "refused") if runs[name]]
    left = planned - sum(runs.values())
    counted += [f"{left} not done"] if left else []
    found = [
        (
            "runs",
            f"{numbers.plural(len(made['points']), 'point')} x"
            f" {numbers.plural(made['repeats'], 'repeat')}: {', '.join(counted)}",
        ),
        ("server", made["server"]),
        ("load", load_words(made)),
        ("objective", f"{made['objective']['title']}, low is good"),
    ]
    if made["noise"] is not None:
        found.append(
            ("noise", f"repeats of one point differ by about {numbers.percent(made['noise'])}")
        )
    machine = made.get("machine") or {}
    if machine:
        found.append(
            (
                "machine",
                f"{machine.get('cpu')}, {machine.get('cores')} cores,"
                f" {machine.get('memory_gib')} GiB, {machine.get('host_os')}",
            )
        )
    if made.get("started_at"):
        found.append(("started", made["started_at"]))
    if made.get("simulated"):
        found.append(("simulated", made["simulated"]))
    return found


def load_words(made: Section) -> str:
    """The constant part of the load."""
    scenario, varying = made["scenario"], {axis["name"] for axis in made["axes"] if axis["varies"]}
    parts = []
    if "qps" in scenario and "qps" not in varying:
        parts.append(f"{numbers.rate(scenario['qps'])} requests/s")
    if "frames" in scenario and "frames" not in varying:
        parts.append(f"frames {'+'.join(map(str, scenario['frames']))}")
    if "size" in scenario and "size" not in varying:
        parts.append("+".join(scenario["size"]))
    if "duration" in scenario:
        parts.append(f"{scenario['duration']:g} s each")
    elif "requests" in scenario:
        parts.append(f"{scenario['requests']} requests each")
    if varying & {"qps", "frames", "size"}:
        parts.append(f"and the axes {', '.join(sorted(varying & {'qps', 'frames', 'size'}))}")
    return ", ".join(parts) or "see the scenario"


def queue(point: Section) -> str:
    """The verdicts of a point's runs: "stable", or "2 growing, 1 can't tell"."""
    verdicts = point["queue"] or {}
    if len(verdicts) == 1:
        return QUEUES[next(iter(verdicts))]
    return ", ".join(f"{n} {QUEUES[name]}" for name, n in verdicts.items()) or numbers.NONE


def value(given: Any) -> str:
    """An axis's value."""
    if given is None:
        return "unset"
    if isinstance(given, bool):
        return "on" if given else "off"
    if isinstance(given, list):
        return "+".join(map(value, given))
    return str(given)


def axes_title(made: Section) -> str:
    """What the short labels of points (`values`) are values of."""
    return " / ".join(axis["name"] for axis in made["axes"] if axis["varies"]) or "the point"


def best_points(made: Section) -> set[int]:
    """Points of the recommended setting."""
    number = get(made, "recommendation", "setting")
    return {p for s in made["settings"] if s["setting"] == number for p in s["points"]}


def change(ratio: float | None) -> str:
    """A ratio as a change: -45%, +3.1%, 12x."""
    if ratio is None:
        return numbers.NONE
    if ratio >= 3:
        return f"{ratio:.3g}x"
    percent = (ratio - 1) * 100
    return f"{percent:+.0f}%" if abs(percent) >= 9.95 else f"{percent:+.1f}%"


def interval(level: Section) -> str:
    if level["low"] is None or level["high"] is None:
        return numbers.NONE
    return f"{change(level['low'])} to {change(level['high'])}"


def p_value(p: float | None) -> str:
    if p is None:
        return numbers.NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def cost(given: float) -> str:
    return numbers.count(given) if given == int(given) else numbers.digits(given)


def failures(made: Section) -> list[Fact]:
    """Points with runs that are not valid, and the reasons."""
    return [(p["label"], "; ".join(p["reasons"])) for p in made["points"] if p["reasons"]]


def pareto(made: Section) -> list[str]:
    """The fronts, a sentence each."""
    points = {p["point"]: p for p in made["points"]}
    title = made["objective"]["title"]
    said = []
    for front in get(made, "pareto", "cost") or []:
        if front:
            names = ", then ".join(
                f"{points[n]['label']} ({numbers.ms(points[n]['objective_ms'])} for"
                f" {cost(points[n]['cost'])})"
                for n in front
            )
            said.append(f"{title} against {made['pareto']['cost_title']}: {names}.")
    front = get(made, "pareto", "throughput") or []
    if front:
        names = ", then ".join(
            f"{points[n]['label']} ({numbers.ms(points[n]['objective_ms'])} at"
            f" {numbers.rate(points[n]['throughput_qps'])}/s)"
            for n in front
        )
        said.append(f"{title} against throughput: {names}.")
    return said
