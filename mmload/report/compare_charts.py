"""The charts of a comparison: all sides on the same axes, linear on the left and log on the right.

In: the object of docs/compare.md and, by label, the series of each run (as the analysis makes them;
None for a run whose records are gone). Out: Plotly figures as plain dicts. A side has one colour
and one dash; its middle run is drawn strong, its other runs faint, so that their spread is seen.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mmload.hook.stages import PHASES
from mmload.report import compare_words as words
from mmload.report import numbers, palette, tables
from mmload.report.charts import PERCENTILE_TICKS
from mmload.report.compare_tables import phase_title
from mmload.report.fields import get
from mmload.report.figures import Figure, axis, figure, label, line, marker, unit

Section = dict[str, Any]
Series = Mapping[str, Sequence[Section | None]]  # by label, a run each

FAINT_RUNS: Final = 12  # of a side; more only make the page heavy
LABEL_SHARE: Final = 0.06  # of the longest bar; a part below it has no room for its number
_FEW_DECADES: Final = 3
_FEWEST_TICKS: Final = 3
_SECOND: Final = {"xaxis": "x2", "yaxis": "y2"}


def figures(made: Section, series: Series) -> dict[str, Figure]:
    """Chart name -> figure, for the charts that have something to show."""
    found = {
        "queue": queue(made, series),
        "latency": latency(made, series),
        "ttft": curve(made, series, "ttft", "TTFT"),
        "e2e": curve(made, series, "e2e", "E2E"),
        "split": split(made),
        "runs": runs(made),
    }
    return {name: one for name, one in found.items() if one}


def queue(made: Section, series: Series) -> Figure | None:
    """Requests in the system over time; nothing of a closed loop, which sets their number itself.
    The log panel counts from 1, since a log has no 0."""

    def points(one: Section) -> tuple[list[Any], list[Any]]:
        found = get(one, "queue") or {}
        return found.get("time_s") or [], found.get("backlog") or []

    said = [
        f"{side}: {text}"
        for side, found in made["queue"].items()
        if (text := words.queue_words(found))
    ]
    lines = _lines(made, series, points, shape="hv")
    if not lines or not said:
        return None
    log = [one | {"y": [v + 1 for v in one["y"]], "showlegend": False} | _SECOND for one in lines]
    return figure(
        f"Queue, {'; '.join(said)}",
        300,
        [*lines, *log],
        **_panels(axis("seconds since the start"), "requests at once", "1 + requests at once", log),
    )


def latency(made: Section, series: Series) -> Figure | None:
    """TTFT of each request of each side's middle run, by when it was meant to be sent."""
    dots: list[Figure] = []
    known = [_middle(made, series, side["label"]) for side in made["sides"]]
    every = [v for one in known for v in get(one, "latency", "ttft_ms") or [] if v is not None]
    if not every:
        return None
    factor, in_unit = unit(every)
    for number, (side, one) in enumerate(zip(made["sides"], known, strict=True)):
        found = get(one, "latency") or {}
        dots.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label(side["label"]),
                "legendgroup": str(number),
                "x": found.get("time_s") or [],
                "y": [None if v is None else v / factor for v in found.get("ttft_ms") or []],
                "marker": marker(number),
                "hovertemplate": f"TTFT %{{y:.4~g}} {in_unit} at %{{x:.2f}} s",
            }
        )
    log = [one | {"showlegend": False} | _SECOND for one in dots]
    title = f"TTFT, {in_unit}"
    return figure(
        "TTFT of each request, by when it was meant to be sent",
        300,
        [*dots, *log],
        **_panels(axis("intended send time, s"), title, title, log),
    )


def curve(made: Section, series: Series, key: str, title: str) -> Figure | None:
    """Latency by percentile over 1/(1 - q), logarithmic, so that the tail has room."""

    def points(one: Section) -> tuple[list[Any], list[Any]]:
        found = get(one, "curve", key) or {}
        percents = found.get("percent") or []
        return [100 / (100 - p) if p < 100 else None for p in percents], found.get("ms") or []

    lines = _lines(made, series, points)
    every = [v for one in lines for v in one["y"] if v is not None]
    if not every:
        return None
    factor, in_unit = unit(every)
    for one in lines:
        one["y"] = [None if v is None else v / factor for v in one["y"]]
        one["text"] = [f"p{100 - 100 / x:.4g}" if x else "" for x in one["x"]]
        one["hovertemplate"] = f"{title} %{{text}}: %{{y:.4~g}} {in_unit}"
    longest = max(x for one in lines for x in one["x"] if x is not None)
    ticks = [p for p in PERCENTILE_TICKS if 100 / (100 - p) <= longest * 1.001]
    percentiles = axis(
        "percentile of requests",
        type="log",
        rangemode="normal",
        tickvals=[100 / (100 - p) for p in ticks],
        ticktext=[f"{p:g}%" for p in ticks],
    )
    log = [one | {"showlegend": False} | _SECOND for one in lines]
    said = f"{title}, {in_unit}"
    return figure(
        f"{title} by percentile", 300, [*lines, *log], **_panels(percentiles, said, said, log)
    )


def split(made: Section) -> Figure | None:
    """Where the time of the mean, p50, p90 and p99 request goes, side under side."""
    bars = [
        (f"{title.split()[0]}, {side['label']}", get(made, "split", side["label"], "phases", key))
        for key, title in tables.SPLIT_COLUMNS
        for side in made["sides"]
    ]
    bars = [(title, column) for title, column in bars if get(column, "phases")]
    if not bars:
        return None
    longest = max(column["e2e_ms"] for _, column in bars)
    factor, in_unit = unit([longest])
    data: list[Figure] = []
    for phase in PHASES:
        values = [column["phases"].get(phase) or 0.0 for _, column in bars]
        if any(values):
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": label(phase_title(list(made["split"].values()), phase)),
                    "y": [label(title) for title, _ in bars],
                    "x": [value / factor for value in values],
                    "text": [
                        numbers.ms(v) if longest and v / longest >= LABEL_SHARE else ""
                        for v in values
                    ],
                    "textposition": "inside",
                    "insidetextanchor": "middle",
                    "textangle": 0,
                    "constraintext": "none",
                    "hovertext": [numbers.ms(value) for value in values],
                    "hovertemplate": "%{y}: %{hovertext}<extra>%{fullData.name}</extra>",
                    "textfont": {"color": palette.PHASE_TEXT[phase]},
                    "marker": {
                        "color": palette.PHASE_COLOURS[phase],
                        "line": {"color": "#ffffff", "width": 1},
                    },
                }
            )
    totals = [
        {
            "x": column["e2e_ms"] / factor,
            "y": label(title),
            "text": numbers.ms(column["e2e_ms"]),
            "showarrow": False,
            "xanchor": "left",
            "xshift": 5,
        }
        for title, column in bars
    ]
    return figure(
        "Where a request's time goes",
        34 * len(bars),
        data,
        barmode="stack",
        bargap=0.3,
        annotations=totals,
        xaxis=axis(f"time since the intended send time, {in_unit}"),
        yaxis=axis("", autorange="reversed", showline=False, showgrid=False, ticks=""),
    )


def runs(made: Section) -> Figure | None:
    """TTFT p90 of every run in order of time: spread, drift, and whether the sides took turns."""
    row = next((row for row in made["metrics"] if row["name"] == "ttft:p90"), None)
    if row is None or max(stat["n"] for stat in row["sides"]) < 2:
        return None
    factor, in_unit = unit([v for stat in row["sides"] for v in stat["values"]])
    order = sorted(run["started_at"] for side in made["sides"] for run in side["runs"])
    dots: list[Figure] = []
    for number, (side, stat) in enumerate(zip(made["sides"], row["sides"], strict=True)):
        if len(stat["values"]) != len(side["runs"]):
            continue  # a run without one: which is which cannot be said
        dots.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label(side["label"]),
                "x": [order.index(run["started_at"]) + 1 for run in side["runs"]],
                "y": [v / factor for v in stat["values"]],
                "marker": marker(number) | {"size": 9, "opacity": 0.9},
                "text": [label(run["folder"]) for run in side["runs"]],
                "hovertemplate": f"%{{text}}: %{{y:.4~g}} {in_unit}",
            }
        )
    log = [one | {"showlegend": False} | _SECOND for one in dots]
    said = f"TTFT p90, {in_unit}"
    return figure(
        "TTFT p90 of each run, in order of time",
        220,
        [*dots, *log],
        **_panels(axis("runs in order of time", rangemode="normal"), said, said, log),
    )


def _lines(
    made: Section,
    series: Series,
    points: Callable[[Section], tuple[list[Any], list[Any]]],
    shape: str = "linear",
) -> list[Figure]:
    """A line a run; the middle run of each side is strong and named."""
    lines: list[Figure] = []
    for number, side in enumerate(made["sides"]):
        middle = made["split"][side["label"]]["run"]
        found = list(enumerate(series.get(side["label"]) or []))
        faint = [one for one in found if one[0] != middle][:FAINT_RUNS]
        for place, one in [*faint, *(one for one in found if one[0] == middle)]:
            x, y = points(one) if one else ([], [])
            if not x:
                continue
            strong = place == middle
            lines.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": label(side["label"]),
                    "legendgroup": str(number),
                    "showlegend": strong,
                    "x": x,
                    "y": y,
                    "opacity": 1 if strong else 0.3,
                    "line": line(number)
                    | {"shape": shape, "width": 2.5 if strong else 1}
                    | ({} if strong else {"dash": "solid"}),
                }
            )
    return lines


def _middle(made: Section, series: Series, side: str) -> Section | None:
    of_side = series.get(side) or []
    place = made["split"][side]["run"]
    return of_side[place] if place < len(of_side) else None


def _panels(horizontal: Figure, linear: str, log: str, drawn: list[Figure]) -> Figure:
    """The same data twice: linear on the left, log on the right. `drawn`: what is in the latter."""
    values = [v for one in drawn for v in one["y"] if v is not None and v > 0]
    logarithmic = axis(f"{log} (log)", anchor="x2", type="log", rangemode="normal")
    return {
        "xaxis": horizontal | {"domain": [0, 0.455]},
        "xaxis2": horizontal | {"domain": [0.545, 1], "anchor": "y2", "matches": "x"},
        "yaxis": axis(linear),
        "yaxis2": logarithmic | _log_ticks(values),
    }


def _log_ticks(values: list[float]) -> Figure:
    """1, 2 and 5 of every decade with whole labels; of many decades only 1. Values so close that
    hardly one of these lies among them get Plotly's own ticks, at even steps."""
    if not values:
        return {}
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if last - first <= _FEW_DECADES else (1,)
    ticks = [step * 10.0**k for k in range(first, last + 1) for step in steps]
    if sum(min(values) <= tick <= max(values) for tick in ticks) < _FEWEST_TICKS:
        return {}
    return {"tickvals": ticks, "ticktext": [f"{tick:,.10g}" for tick in ticks]}
