"""Heatmaps of a sweep: two axes at a time, a panel for each thing that was measured.

In: the object of docs/sweep.md. Out: figures, one for each combination of the remaining axes.
"""

import itertools
import math
from typing import Any, Final

from mmload.report import numbers, palette, sweep_words
from mmload.report.figures import WIDE_SPAN, Figure, axis, figure, label
from mmload.report.sweep_words import Section

# Light enough for dark text on every step; one hue, so that it reads in grey too.
SCALE: Final = [[0.0, "#f4f8fb"], [0.5, "#b5d3ea"], [1.0, "#5b9fd0"]]
CELL: Final = 40
LEAST_SPAN: Final = 0.6  # of the shades, relative to the values


def heatmaps(made: Section) -> list[Figure]:
    """For two axes at a time, panels of what was measured; a figure for each combination of the
    others."""
    varying = [axis for axis in made["axes"] if axis["varies"]]
    if len(varying) < 2:
        return []
    varying.sort(key=lambda one: one["kind"] == "load")  # the server's axes first
    down, across, *others = varying
    slices = list(itertools.product(*(one["values"] for one in others)))
    return [
        heat
        for fixed in slices[: sweep_words.MOST_SLICES]
        if (heat := _heat(made, down, across, list(zip(others, fixed, strict=True))))
    ]


def _heat(
    made: Section, down: Section, across: Section, fixed: list[tuple[Section, Any]]
) -> Figure | None:
    points = [p for p in made["points"] if all(_value(p, one) == v for one, v in fixed)]
    cells = {(_key(_value(p, down)), _key(_value(p, across))): p for p in points if p["valid_runs"]}
    panels = []
    for title, pick, form in _panels(made):
        grid = [
            [
                pick(cells[at]) if (at := (_key(d), _key(a))) in cells else None
                for a in across["values"]
            ]
            for d in down["values"]
        ]
        if any(value is not None for row in grid for value in row):
            panels.append((title, grid, form))
    if not panels:
        return None
    columns = 2 if len(panels) > 1 else 1
    rows = -(-len(panels) // columns)
    data: list[Figure] = []
    more: dict[str, Any] = {"annotations": []}
    plot_height = rows * (CELL * len(down["values"]) + 78)
    gap = 58 / plot_height
    height = (1 - gap * (rows - 1)) / rows
    for i, (title, grid, form) in enumerate(panels):
        n = "" if i == 0 else str(i + 1)
        left, top = (i % columns) * 0.55, 1 - (i // columns) * (height + gap)
        data.append(_panel(down, across, grid, form, n))
        more[f"xaxis{n}"] = axis(
            label(across["name"]) if i // columns == rows - 1 else "",
            domain=[left, left + (0.45 if columns == 2 else 1)],
            anchor=f"y{n}",
            type="category",
            showgrid=False,
            showline=False,
            ticks="",
        )
        more[f"yaxis{n}"] = axis(
            label(down["name"]) if i % columns == 0 else "",
            domain=[top - height, top - 22 / plot_height],
            anchor=f"x{n}",
            type="category",
            autorange="reversed",
            showgrid=False,
            showline=False,
            ticks="",
        )
        more["annotations"].append(
            {
                "text": f"<b>{label(title)}</b>",
                "x": left,
                "y": top,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "top",
                "showarrow": False,
            }
        )
    where = ", ".join(f"{one['name']} {sweep_words.value(v)}" for one, v in fixed)
    title = f"{down['name']} and {across['name']}{f' at {where}' if where else ''}"
    return figure(title, plot_height, data, **more)


def _panels(made: Section) -> list[tuple[str, Any, Any]]:
    """Title, what it shows of a point, how a value is written."""
    phase = "mean request"
    return [
        (made["objective"]["title"], lambda p: p["objective_ms"], numbers.ms),
        (f"Queueing, {phase}", lambda p: p["phases_ms"].get("queueing"), numbers.ms),
        (f"CPU preprocessing, {phase}", lambda p: p["phases_ms"].get("cpu"), numbers.ms),
        (f"GPU, {phase}", lambda p: p["phases_ms"].get("gpu"), numbers.ms),
        ("Capacity that the spans imply, requests/s", lambda p: p["capacity_qps"], numbers.rate),
        ("CPU cores used by the server", lambda p: p["cpu_cores"], numbers.rate),
    ]


def _panel(down: Section, across: Section, grid: list[list[Any]], form: Any, n: str) -> Figure:
    known = [v for row in grid for v in row if v is not None]
    wide = min(known) > 0 and max(known) > WIDE_SPAN * min(known)
    shades = [[math.log10(v) if wide and v else v for v in row] for row in grid]
    low, high = (f(v for row in shades for v in row if v is not None) for f in (min, max))
    if not wide and high - low < LEAST_SPAN * high:  # a trifle must not look like a difference
        middle = (low + high) / 2
        low, high = middle - LEAST_SPAN * middle / 2, middle + LEAST_SPAN * middle / 2
    return {
        "type": "heatmap",
        "x": [sweep_words.value(v) for v in across["values"]],
        "y": [sweep_words.value(v) for v in down["values"]],
        "z": shades,
        "zmin": low,
        "zmax": high if high > low else low + 1,
        "text": [["" if v is None else form(v) for v in row] for row in grid],
        "texttemplate": "%{text}",
        "textfont": {"color": palette.INK},
        "hovertemplate": "%{y} / %{x}: %{text}<extra></extra>",
        "colorscale": SCALE,
        "showscale": False,
        "showlegend": False,
        "name": "",
        "xgap": 2,
        "ygap": 2,
        "xaxis": f"x{n}",
        "yaxis": f"y{n}",
    }


def _value(point: Section, one: Section) -> Any:
    return point[one["kind"]].get(one["name"])


def _key(value: Any) -> str:
    return repr(value)
