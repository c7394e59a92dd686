"""The charts of a sweep as Plotly figures: every run, what each axis changes, heatmaps, the split.

In: the object of docs/sweep.md. Out: name -> figure, for those that have something to show.
"""

import math
from typing import Any, Final

from mmload.hook.stages import PHASE_TITLES, PHASES
from mmload.report import palette, sweep_words
from mmload.report.figures import Figure, axis, figure, label, line, unit, wide_axis
from mmload.report.sweep_heat import heatmaps
from mmload.report.sweep_words import Section

ROW: Final = 26
SHORTEST: Final = 120


def figures(made: Section) -> dict[str, Figure]:
    found = {
        "runs": runs(made),
        "effects": effects(made),
        "split": split(made),
        "loads": loads(made),
        "pareto": pareto(made),
        **{f"heat{i}": heat for i, heat in enumerate(heatmaps(made))},
    }
    return {name: one for name, one in found.items() if one}


def runs(made: Section) -> Figure | None:
    """The objective of every run, a row a point, and the medians."""
    points = [p for p in made["points"] if p["objective_each_ms"]]
    if not points:
        return None
    values = [v for p in points for v in p["objective_each_ms"]]
    factor, in_unit = unit(values)
    rows = [label(p["values"]) for p in points]
    each: Figure = {
        "type": "scatter",
        "mode": "markers",
        "name": "a run",
        "y": [row for row, p in zip(rows, points, strict=True) for _ in p["objective_each_ms"]],
        "x": [v / factor for v in values],
        "marker": {"size": 8, "color": palette.SERIES_COLOURS[0], "opacity": 0.55},
        "hovertemplate": f"%{{y}}: %{{x:.4~g}} {in_unit}<extra></extra>",
    }
    middle: Figure = {
        "type": "scatter",
        "mode": "markers",
        "name": "median",
        "y": rows,
        "x": [p["objective_ms"] / factor for p in points],
        "marker": {"symbol": "line-ns", "size": 16, "line": {"width": 2.5, "color": palette.INK}},
        "hovertemplate": f"median %{{x:.4~g}} {in_unit}<extra></extra>",
    }
    return figure(
        f"{made['objective']['title']} of every valid run, by {sweep_words.axes_title(made)}",
        max(SHORTEST, ROW * len(points)),
        [each, middle],
        xaxis=axis(
            f"{made['objective']['title']}, {in_unit}", **wide_axis([v / factor for v in values])
        ),
        yaxis=_rows(),
    )


def effects(made: Section) -> Figure | None:
    """The change at each level of each axis with its interval; the band is "as good as none"."""
    levels = [
        (effect, level)
        for effect in made["effects"]
        for level in effect["levels"]
        if level["ratio"] is not None
    ]
    if not levels:
        return None
    names = [
        label(
            f"{effect['name']} {sweep_words.value(level['value'])} against"
            f" {sweep_words.value(effect['reference'])}"
        )
        for effect, level in levels
    ]
    share = made["no_effect_within"]
    lows = [level["low"] or level["ratio"] for _, level in levels]
    highs = [level["high"] or level["ratio"] for _, level in levels]
    span = (min([*lows, 1 - share]), max([*highs, 1 + share]))
    data: list[Figure] = []
    for number, (verdict, word) in enumerate(sweep_words.VERDICTS.items()):
        mine = [i for i, (effect, _) in enumerate(levels) if effect["verdict"] == verdict]
        if not mine:
            continue
        ratios = [levels[i][1]["ratio"] for i in mine]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": word,
                "y": [names[i] for i in mine],
                "x": ratios,
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [highs[i] - r for i, r in zip(mine, ratios, strict=True)],
                    "arrayminus": [r - lows[i] for i, r in zip(mine, ratios, strict=True)],
                    "thickness": 2,
                },
                "customdata": [
                    f"{sweep_words.change(levels[i][1]['ratio'])},"
                    f" {sweep_words.interval(levels[i][1])}"
                    for i in mine
                ],
                "hovertemplate": "%{y}: %{customdata}<extra></extra>",
                "marker": {
                    "size": 9,
                    "color": palette.SERIES_COLOURS[(5, 0, 3)[number]],
                    "symbol": palette.SERIES_SYMBOLS[number],
                },
            }
        )
    steps = _RATIOS if span[1] < 3 * span[0] else _WIDE_RATIOS
    ticks = [t for t in steps if span[0] / 1.3 <= t <= span[1] * 1.3]
    band = {"type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 0}}
    return figure(
        f"What each axis changes ({made['objective']['title']}; the band is within"
        f" {share:.0%} of nothing)",
        max(SHORTEST, ROW * len(levels)),
        data,
        shapes=[band | {"x0": 1 - share, "x1": 1 + share, "fillcolor": "rgba(91,101,113,0.13)"}],
        xaxis=axis(
            "change against the reference value, with its 95% interval",
            type="log",
            rangemode="normal",
            range=[math.log10(span[0] / 1.1), math.log10(span[1] * 1.1)],
            tickvals=ticks,
            ticktext=[sweep_words.change(t) if t != 1 else "none" for t in ticks],
        ),
        yaxis=_rows(categoryarray=names),
    )


_RATIOS: Final[tuple[float, ...]] = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
_WIDE_RATIOS: Final[tuple[float, ...]] = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2,
    5,
    10,
    20,
    50,
    100,
)


def split(made: Section) -> Figure | None:
    """Where the mean request's time goes at each point: stacked bars."""
    points = [p for p in made["points"] if p["phases_ms"]]
    if not points:
        return None
    totals = [sum(v or 0 for v in p["phases_ms"].values()) for p in points]
    factor, in_unit = unit(totals)
    bars: list[Figure] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": PHASE_TITLES[phase],
            "y": [label(p["values"]) for p in points],
            "x": [(p["phases_ms"].get(phase) or 0) / factor for p in points],
            "hovertemplate": f"%{{y}}: %{{x:.4~g}} {in_unit}<extra>{PHASE_TITLES[phase]}</extra>",
            "marker": {"color": palette.PHASE_COLOURS[phase], "line": {"width": 0}},
        }
        for phase in PHASES
        if any(
            (p["phases_ms"].get(phase) or 0) > 0.004 * t
            for p, t in zip(points, totals, strict=True)
        )
    ]
    return figure(
        f"Where the mean request's time goes, by {sweep_words.axes_title(made)}",
        max(SHORTEST, ROW * len(points)),
        bars,
        barmode="stack",
        bargap=0.3,
        xaxis=axis(f"time since the intended send time, {in_unit}"),
        yaxis=_rows(),
    )


def loads(made: Section) -> Figure | None:
    """The objective against answers a second: a line a setting, a point a load."""
    points = {p["point"]: p for p in made["points"]}
    lines = []
    for setting in made["settings"]:
        known = [p for n in setting["points"] if (p := points[n])["throughput_qps"]]
        known.sort(key=lambda p: p["throughput_qps"])
        if len(known) > 1:
            lines.append((setting["label"] or "the server", known))
    if not lines:
        return None
    values = [p["objective_ms"] for _, known in lines for p in known]
    factor, in_unit = unit(values)
    data: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": label(name),
            "x": [p["throughput_qps"] for p in known],
            "y": [p["objective_ms"] / factor for p in known],
            "text": [label(p["label"]) for p in known],
            "hovertemplate": f"%{{text}}: %{{y:.4~g}} {in_unit} at %{{x:.3~g}}/s<extra></extra>",
            "line": line(number),
            "marker": {"size": 7, "symbol": palette.SERIES_SYMBOLS[number % 6]},
        }
        for number, (name, known) in enumerate(lines)
    ]
    return figure(
        f"{made['objective']['title']} against throughput",
        280,
        data,
        xaxis=axis("answers/s"),
        yaxis=axis(
            f"{made['objective']['title']}, {in_unit}", **wide_axis([v / factor for v in values])
        ),
    )


def pareto(made: Section) -> Figure | None:
    """The objective against what a point costs; the line joins the points that nothing beats."""
    points = {p["point"]: p for p in made["points"]}
    priced = [p for p in points.values() if p["cost"] is not None and p["objective_ms"] is not None]
    if len(priced) < 2:
        return None
    factor, in_unit = unit([p["objective_ms"] for p in priced])
    every: Figure = {
        "type": "scatter",
        "mode": "markers",
        "name": "point",
        "x": [p["cost"] for p in priced],
        "y": [p["objective_ms"] / factor for p in priced],
        "text": [label(p["values"]) for p in priced],
        "hovertemplate": f"%{{text}}: %{{y:.4~g}} {in_unit}, cost %{{x:.3~g}}<extra></extra>",
        "marker": {"size": 9, "color": palette.SERIES_COLOURS[0], "opacity": 0.6},
    }
    data = [every]
    for number, front in enumerate(made["pareto"]["cost"]):
        on = sorted((points[n] for n in front), key=lambda p: p["cost"])
        if not on:
            continue
        half = max(p["cost"] for p in priced) / 2
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers+text",
                "name": "front" if number == 0 else f"front of load {number + 1}",
                "x": [p["cost"] for p in on],
                "y": [p["objective_ms"] / factor for p in on],
                "text": [f"  {label(p['label'])}" for p in on],
                "textposition": [f"top {'left' if p['cost'] > half else 'right'}" for p in on],
                "textfont": {"size": 11},
                "hoverinfo": "skip",
                "cliponaxis": False,
                "line": {
                    "color": palette.INK,
                    "width": 1.5,
                    "dash": palette.SERIES_DASHES[number % 6],
                },
                "marker": {"size": 10, "color": palette.INK, "symbol": "diamond"},
            }
        )
    values = [p["objective_ms"] for p in priced]
    return figure(
        f"{made['objective']['title']} against {made['pareto']['cost_title']}",
        280,
        data,
        xaxis=axis(label(made["pareto"]["cost_title"])),
        yaxis=axis(
            f"{made['objective']['title']}, {in_unit}",
            **wide_axis([v / factor for v in values]),
        ),
    )


def _rows(**more: Any) -> Figure:
    return axis("", type="category", autorange="reversed", showgrid=False, ticks="", **more)
