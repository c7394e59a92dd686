"""The charts of the HTML report as Plotly figures: plain dicts, ready to become JSON.

In: the summary and the series behind it (points only, already thinned by the analysis). Out: for
each chart a figure, or None when there is nothing to draw. Nothing here imports plotly. Names that
users and servers chose are escaped, since Plotly reads a little markup in its labels.
"""

from typing import Final

from mmload.hook.stages import PHASES
from mmload.report import numbers, palette, tables, words
from mmload.report.cake_chart import icicle
from mmload.report.fields import Summary, get
from mmload.report.figures import Figure, axis, figure, label, line, marker, unit
from mmload.report.watch_chart import watched

STAGES_SHOWN: Final = 5  # backlog lines of single stages; more cannot be told apart
VISIBLE_SHARE: Final = 0.05  # of the whole backlog's peak; a line below it lies on the axis
LABEL_SHARE: Final = 0.06  # a bar narrower than this has no room for its number
PANELS: Final = (("ttft", "TTFT", "x", "y"), ("e2e", "E2E", "x2", "y2"))
PERCENTILE_TICKS: Final = (50.0, 90.0, 99.0, 99.9, 99.99)


def figures(summary: Summary, series: Summary) -> dict[str, Figure]:
    """Chart name -> figure, for the charts that have something to show."""
    made = {
        "split": split(summary),
        "queue": queue(summary, get(series, "queue")) if _may_queue(summary) else None,
        "watched": watched(series),
        "cake": icicle(get(summary, "profile")),
        "latency": latency(summary, get(series, "latency")),
        "curve": curve(summary, get(series, "curve")),
        "outcomes": outcomes(get(series, "outcomes")),
    }
    return {name: figure for name, figure in made.items() if figure}


def _may_queue(summary: Summary) -> bool:
    """One request at a time makes a curve of nothing but 0 and 1."""
    return bool(get(summary, "run", "load_mode") != "sequential")


def split(summary: Summary) -> Figure | None:
    """Where the time of the mean, p50, p90 and p99 request went: one stacked bar each."""
    columns = tables.split(summary)
    if not columns:
        return None
    factor, in_unit = unit([get(column, "e2e_ms") or 0 for _, _, column in columns])
    bars = []
    for phase in tables.split_phases(summary):
        values = [get(column, "phases", phase) or 0 for _, _, column in columns]
        shares = [tables.share(column, phase) or 0 for _, _, column in columns]
        bars.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label(tables.phase_title(summary, phase)),
                "y": [title for _, title, _ in columns],
                "x": [value / factor for value in values],
                "text": [
                    numbers.ms(value) if share >= LABEL_SHARE else ""
                    for value, share in zip(values, shares, strict=True)
                ],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "constraintext": "none",
                "hovertext": [
                    f"{numbers.ms(value)}, {numbers.percent(share)}"
                    for value, share in zip(values, shares, strict=True)
                ],
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
            "x": (get(column, "e2e_ms") or 0) / factor,
            "y": title,
            "text": numbers.ms(get(column, "e2e_ms")),
            "showarrow": False,
            "xanchor": "left",
            "xshift": 5,
        }
        for _, title, column in columns
    ]
    return figure(
        f"Where a request's time goes: {tables.largest_phase(summary)}",
        46 * len(columns),
        bars,
        barmode="stack",
        bargap=0.32,
        annotations=totals,
        xaxis=axis(f"time since the intended send time, {in_unit}"),
        yaxis=axis("", autorange="reversed", showline=False, showgrid=False, ticks=""),
    )


def queue(summary: Summary, series: Summary | None) -> Figure | None:
    """Cumulative arrivals against completions, and below it the backlog, in all and by stage."""
    time_s = get(series, "time_s")
    if not series or not time_s:
        return None
    step: Figure = {"type": "scatter", "mode": "lines", "x": time_s}
    lower = {"xaxis": "x", "yaxis": "y2"}
    lines = [
        step | {"name": "completions", "y": series["completions"]},
        step | {"name": "arrivals", "y": series["arrivals"], "fill": "tonexty"},
        step | {"name": "in the system", "y": series["backlog"]} | lower,
    ]
    lines[0]["line"] = {"color": "#4477aa", "width": 2, "dash": "dash", "shape": "hv"}
    lines[1]["line"] = {"color": palette.INK, "width": 2, "shape": "hv"}
    lines[1]["fillcolor"] = "rgba(91, 101, 113, 0.14)"
    lines[2]["line"] = {"color": palette.INK, "width": 2.5, "shape": "hv"}
    colours = stage_colours(summary)
    for number, (name, one) in enumerate(_fullest_stages(series)):
        lines.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": label(tables.stage_title(summary, name)),
                "x": one["time_s"],
                "y": one["backlog"],
                "line": {
                    "color": colours.get(name, palette.MUTED),
                    "dash": palette.SERIES_DASHES[(number + 1) % len(palette.SERIES_DASHES)],
                    "width": 2,
                    "shape": "hv",
                },
                **lower,
            }
        )
    return figure(
        f"Queue: {words.growth(get(summary, 'queue'))}",
        400,
        lines,
        hovermode="x unified",
        xaxis=axis("seconds since the start", anchor="y2"),
        yaxis=axis("requests, cumulative", domain=[0.55, 1]),
        yaxis2=axis("requests at once", domain=[0, 0.45]),
    )


def _fullest_stages(series: Summary) -> list[tuple[str, Summary]]:
    """The stages whose backlog was ever a visible part of the whole, the largest first."""
    peaks = {
        name: max(get(one, "backlog") or [0]) for name, one in (get(series, "stages") or {}).items()
    }
    visible = VISIBLE_SHARE * max(series["backlog"], default=0)
    names = sorted((n for n, peak in peaks.items() if peak > visible), key=lambda n: -peaks[n])
    return [(name, series["stages"][name]) for name in names[:STAGES_SHOWN]]


def stage_colours(summary: Summary) -> dict[str, str]:
    """A shade of its phase's colour for every stage of the run."""
    by_phase: dict[str, list[str]] = {}
    for phase in PHASES:
        by_phase[phase] = tables.split_stages(summary, phase)
    for name, _ in tables.ordered(get(summary, "stages")):
        known = by_phase[tables.phase_of_stage(summary, name)]
        if name not in known:
            known.append(name)
    return {
        name: palette.shade(palette.PHASE_COLOURS.get(phase, palette.MUTED), i, len(names))
        for phase, names in by_phase.items()
        for i, name in enumerate(names)
    }


def latency(summary: Summary, series: Summary | None) -> Figure | None:
    """TTFT and E2E of each request over the time at which it was meant to be sent, by class."""
    time_s, classes = get(series, "time_s"), get(series, "class")
    if not series or not time_s or not classes:
        return None
    factor, in_unit = unit([v for key, *_ in PANELS for v in series[f"{key}_ms"] if v is not None])
    points = []
    for number, name in enumerate(_in_order(summary, set(classes))):
        rows = [i for i, one in enumerate(classes) if one == name]
        for key, title, x, y in PANELS:
            values = series[f"{key}_ms"]
            points.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": label(name),
                    "legendgroup": str(number),
                    "showlegend": key == "ttft",
                    "x": [time_s[i] for i in rows],
                    "y": [None if values[i] is None else values[i] / factor for i in rows],
                    "xaxis": x,
                    "yaxis": y,
                    "hovertemplate": f"{title} %{{y:.4~g}} {in_unit} at %{{x:.2f}} s",
                    "marker": marker(number),
                }
            )
    title = "Latency of each request that succeeded, by when it was meant to be sent"
    return figure(title, 250, points, **_two_panels(in_unit, axis("intended send time, s")))


def _in_order(summary: Summary, classes: set[str]) -> list[str]:
    """Class names in the summary's order, so that a class looks the same in every chart."""
    known = [name for name in get(summary, "classes") or {} if name in classes]
    return known + sorted(classes.difference(known))


def curve(summary: Summary, series: Summary | None) -> Figure | None:
    """Latency by percentile; the axis is 1/(1 - q), logarithmic, so that the tail has room."""
    named = {name: one for name, one in (series or {}).items() if get(one, "percent")}
    if not named:
        return None
    factor, in_unit = unit([v for one in named.values() for v in one["ms"] if v is not None])
    classes = _in_order(summary, {words.curve_class(name) for name in named} - {""})
    panels = {key: (title, x, y) for key, title, x, y in PANELS}
    lines, longest = [], 2.0
    for name, one in named.items():
        title, x, y = panels[name.partition(":")[0]]
        of_class = words.curve_class(name)
        number = classes.index(of_class) if of_class else -1
        tail = [100 / (100 - p) if p < 100 else None for p in one["percent"]]
        longest = max([longest, *(t for t in tail if t is not None)])
        lines.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": label(of_class or "all requests"),
                "legendgroup": str(number),
                "showlegend": x == "x",
                "x": tail,
                "y": [None if v is None else v / factor for v in one["ms"]],
                "xaxis": x,
                "yaxis": y,
                "text": [f"p{p:g}" for p in one["percent"]],
                "hovertemplate": f"{title} %{{text}}: %{{y:.4~g}} {in_unit}",
                "line": line(number) if of_class else {"color": palette.INK, "width": 2.5},
            }
        )
    ticks = [p for p in PERCENTILE_TICKS if 100 / (100 - p) <= longest * 1.001]
    percentiles = axis(
        "percentile of requests",
        type="log",
        rangemode="normal",
        tickvals=[100 / (100 - p) for p in ticks],
        ticktext=[f"{p:g}%" for p in ticks],
    )
    return figure("Latency by percentile", 250, lines, **_two_panels(in_unit, percentiles))


def _two_panels(in_unit: str, horizontal: Figure) -> Figure:
    """TTFT on the left and E2E on the right, with the same scales."""
    return {
        "xaxis": horizontal | {"domain": [0, 0.455]},
        "xaxis2": horizontal | {"domain": [0.545, 1], "anchor": "y2", "matches": "x"},
        "yaxis": axis(f"TTFT, {in_unit}"),
        "yaxis2": axis(f"E2E, {in_unit}", anchor="x2", matches="y"),
    }


def outcomes(series: Summary | None) -> Figure | None:
    """Requests by the time at which they were meant to be sent and by how they ended."""
    failed = {kind: counts for kind, counts in (get(series, "failed") or {}).items() if any(counts)}
    if not series or not failed:
        return None
    bars = [
        {
            "type": "bar",
            "name": label(kind.replace("_", " ")),
            "x": series["time_s"],
            "y": counts,
            "offset": 0,
            "width": series["bin_s"],
            "marker": {
                "color": palette.FAILURE_COLOURS[number % len(palette.FAILURE_COLOURS)],
                "pattern": {
                    "shape": palette.PATTERNS[number % len(palette.PATTERNS)],
                    "fillmode": "overlay",
                    "size": 6,
                },
            },
        }
        for number, (kind, counts) in enumerate({**failed, "ok": series["ok"]}.items())
    ]
    bars[-1]["marker"] = {"color": palette.GRID}
    return figure(
        "How requests ended, by when they were meant to be sent",
        180,
        bars,
        barmode="stack",
        bargap=0,
        xaxis=axis("intended send time, s", range=[0, series["time_s"][-1] + series["bin_s"]]),
        yaxis=axis("requests"),
    )
