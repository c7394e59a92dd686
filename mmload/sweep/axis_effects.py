"""Which axes matter, which had no effect, and which this sweep cannot tell of.

In: the table. Out: a dictionary an axis (docs/sweep.md). Each level of an axis is compared with its
reference level, in every combination of the other axes that has both; all these comparisons of the
sweep are one family under Holm. The rule:

- *effect*: a difference is shown (p < .05 after Holm);
- *no effect*: none is shown, every level's interval lies within +-x, and so does its change in each
  combination of the other axes;
- *can't tell*: anything else: the runs scatter too much for the number of repeats.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.significance import holm
from mmload.sweep.axes import Axis, Point, Value, show
from mmload.sweep.effects import ALPHA, Change, change, repeats_needed
from mmload.sweep.table import Table, rounded

Side = list[NDArray[np.float64]]


def axis_effects(table: Table, title: str) -> list[dict[str, Any]]:
    """An entry for each varying axis; `title` is the objective's."""
    found: list[tuple[Axis, Value, Change | None, list[Point]]] = []
    for axis in table.design.varying:
        start = table.reference[axis]
        for level in axis.values:
            if level != start:
                a, b, others = _sides(table, axis, start, level)
                found.append((axis, level, change(a, b), others))
    tested = [c.p for _, _, c, _ in found if c is not None and c.p is not None]
    adjusted = iter(holm(tested))
    rows: dict[Axis, list[dict[str, Any]]] = {axis: [] for axis in table.design.varying}
    changes: dict[Axis, list[tuple[Value, Change | None, float | None, list[Point]]]] = {}
    for axis, level, one, others in found:
        p = next(adjusted) if one is not None and one.p is not None else None
        changes.setdefault(axis, []).append((level, one, p, others))
        rows[axis].append({"value": level, **change_data(one, p)})
    return [_entry(table, axis, rows[axis], changes[axis], title) for axis in rows]


def change_data(one: Change | None, p_adjusted: float | None) -> dict[str, Any]:
    """A change as data; everything null where there was nothing to compare."""
    if one is None:
        return dict.fromkeys(("ratio", "low", "high", "p", "p_adjusted")) | {"pairs": 0}
    return {
        "ratio": rounded(one.ratio),
        "low": rounded(one.low),
        "high": rounded(one.high),
        "p": rounded(one.p),
        "p_adjusted": rounded(p_adjusted),
        "pairs": one.pairs,
    }


def percent_change(ratio: float) -> str:
    """A ratio as people say it: -45%, +3.1%, 12x."""
    if ratio >= 3:
        return f"{ratio:.3g}x"
    value = (ratio - 1) * 100
    return f"{value:+.0f}%" if abs(value) >= 9.95 else f"{value:+.1f}%"


def in_words(one: Change) -> str:
    """ "-45% [-50%, -40%]"."""
    if one.low is None or one.high is None:
        return percent_change(one.ratio)
    return f"{percent_change(one.ratio)} [{percent_change(one.low)}, {percent_change(one.high)}]"


def _sides(table: Table, axis: Axis, a: Value, b: Value) -> tuple[Side, Side, list[Point]]:
    """The runs at two levels of an axis, by combinations of the others that have both."""
    by_rest: dict[str, dict[int, Point]] = {}
    for point in table.design.points:
        value = point.value(axis)
        if value in (a, b):
            rest = ", ".join(
                f"{o.kind}.{o.name}={show(point.value(o))}" for o in _others(table, axis)
            )
            by_rest.setdefault(rest, {})[int(value == b)] = point
    both = [pair for pair in by_rest.values() if len(pair) == 2]
    return (
        [table.values(pair[0].number) for pair in both],
        [table.values(pair[1].number) for pair in both],
        [pair[1] for pair in both],
    )


def _others(table: Table, axis: Axis) -> Iterator[Axis]:
    return (other for other in table.design.varying if other is not axis)


def _entry(
    table: Table,
    axis: Axis,
    rows: list[dict[str, Any]],
    changes: list[tuple[Value, Change | None, float | None, list[Point]]],
    title: str,
) -> dict[str, Any]:
    share = table.plan.no_effect_within
    known = [(level, c, p, others) for level, c, p, others in changes if c is not None]
    shown = [entry for entry in known if entry[2] is not None and entry[2] < ALPHA]
    start = show(table.reference[axis])
    needed = None
    if shown:
        verdict = "effect"
        level, one, p, _ = max(shown, key=lambda entry: abs(np.log(entry[1].ratio)))
        sentence = (
            f"{axis.name} matters: {show(level)} against {start} changes {title} by"
            f" {in_words(one)}, p {p_words(p)} after Holm"
        )
    elif known and len(known) == len(changes) and all(c.within(share) for _, c, _, _ in known):
        verdict = "no_effect"
        level, one, _, _ = max(known, key=lambda entry: abs(np.log(entry[1].ratio)))
        sentence = (
            f"{axis.name} had no effect: no difference shown, and every change of {title} lies"
            f" within +-{share:.0%}; the largest is {show(level)} against {start}, {in_words(one)}"
        )
    else:
        verdict = "cant_tell"
        sentence = f"{axis.name}: can't tell"
        if known:
            level, one, _, _ = max(known, key=lambda entry: entry[1].half_width or np.inf)
            sentence += (
                f", needs more repeats: {show(level)} against {start} changes {title} by"
                f" {in_words(one)}"
            )
            if one.low is None:
                sentence += "; so few repeats show no scatter"
            needed = repeats_needed(one, table.plan.repeats, share)
            sentence += f"; about {needed} repeats would do" if needed else ""
            sentence += _ways(table, axis, known, share)
        else:
            sentence += ": no combination of the other axes has valid runs of two of its values"
    return {
        "kind": axis.kind,
        "name": axis.name,
        "reference": table.reference[axis],
        "verdict": verdict,
        "sentence": sentence + ".",
        "repeats_needed": needed,
        "levels": rows,
    }


def _ways(
    table: Table,
    axis: Axis,
    known: list[tuple[Value, Change, float | None, list[Point]]],
    share: float,
) -> str:
    """That an axis seems to help in one place and to hurt in another, where it does."""
    for level, one, _, others in known:
        if len(others) != len(one.cells):
            continue
        low, high = int(np.argmin(one.cells)), int(np.argmax(one.cells))
        if one.cells[low] < 1 - share and one.cells[high] > 1 + share:
            places = (
                ", ".join(f"{o.name}={show(others[i].value(o))}" for o in _others(table, axis))
                for i in (low, high)
            )
            at_low, at_high = places
            return (
                f". It points both ways: {show(level)} is {percent_change(one.cells[low])} at"
                f" {at_low}, {percent_change(one.cells[high])} at {at_high}"
            )
    return ""


def p_words(p: float | None) -> str:
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"
