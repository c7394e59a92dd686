"""What all charts share: layout, axes, and the line or point of the n-th thing drawn.

Figures are plain dicts in Plotly's format. Titles and names are escaped here, since Plotly reads a
little markup in its labels and the names are somebody else's words.
"""

import math
from html import escape
from typing import Any, Final

from mmload.report import numbers, palette
from mmload.report.fields import visible

Figure = dict[str, Any]

FONT: Final = (
    'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", sans-serif'
)


def label(name: object) -> str:
    """A name as Plotly should show it: literally."""
    return escape(visible(str(name)), quote=False)


def figure(title: str, plot_height: int, data: list[Figure], **more: Any) -> Figure:
    """A figure whose plot area is `plot_height` pixels high, whatever its legend needs above it."""
    top = _TITLE_HEIGHT + _LEGEND_LINE * _legend_lines(data)
    layout: Figure = {
        "title": {
            "text": label(title),
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 8, "l": 4},
            "font": {"size": 15, "weight": 600},
        },
        "font": {"family": FONT, "size": 12, "color": palette.INK},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 64, "r": 16, "t": top, "b": _BOTTOM},
        "height": top + plot_height + _BOTTOM,
        "autosize": True,
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": 1 + 6 / plot_height,
            "yanchor": "bottom",
            "font": {"size": 12},
        },
        "hoverlabel": {"font": {"family": FONT}},
    }
    return {"data": data, "layout": layout | more}


WIDE_SPAN: Final = 8  # a span of values wider than this is drawn on a logarithmic axis
_TITLE_HEIGHT: Final = 42
_LEGEND_LINE: Final = 20
_BOTTOM: Final = 46
_PAPER_WIDTH: Final = 620  # of the plot area on paper, the narrowest there is


def _legend_lines(data: list[Figure]) -> int:
    """How many lines the legend takes on paper, where plotly sets its entries in equal columns."""
    names = [len(one["name"]) for one in data if one.get("showlegend", True)]
    if len(names) < 2:
        return len(names)
    in_a_row = max(1, _PAPER_WIDTH // (max(names) * 7 + 48))
    return -(-len(names) // in_a_row)


def axis(title: str, **more: Any) -> Figure:
    made: Figure = {
        "title": {"text": title, "standoff": 8, "font": {"size": 12, "color": palette.MUTED}},
        "gridcolor": palette.GRID,
        "linecolor": "#b8c0ca",
        "zeroline": False,
        "showline": True,
        "ticks": "outside",
        "tickcolor": "#b8c0ca",
        "rangemode": "tozero",
        "automargin": True,
    }
    return made | more


def unit(values_ms: list[float]) -> tuple[float, str]:
    """What to divide by, and the unit, so that an axis follows the rule of `numbers.ms`."""
    return (1000.0, "s") if max(values_ms, default=0) >= numbers.SECONDS_FROM_MS else (1.0, "ms")


def wide_axis(values: list[float]) -> Figure:
    """More of an axis, for values above 0: logarithmic where they span much, with ticks at 1, 2
    and 5 times the powers of ten."""
    known = [value for value in values if value > 0]
    if not known or max(known) <= WIDE_SPAN * min(known):
        return {}
    low, high = min(known) / 1.2, max(known) * 1.2
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return {
        "type": "log",
        "rangemode": "normal",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": ticks,
        "ticktext": [f"{tick:,g}" for tick in ticks],
    }


def line(number: int) -> Figure:
    """The n-th line of a chart: its own colour and its own dash."""
    return {
        "color": palette.SERIES_COLOURS[number % len(palette.SERIES_COLOURS)],
        "dash": palette.SERIES_DASHES[number % len(palette.SERIES_DASHES)],
        "width": 2,
    }


def marker(number: int) -> Figure:
    """The n-th kind of point of a chart: its own colour and its own shape."""
    return {
        "size": 5,
        "opacity": 0.65,
        "color": palette.SERIES_COLOURS[number % len(palette.SERIES_COLOURS)],
        "symbol": palette.SERIES_SYMBOLS[number % len(palette.SERIES_SYMBOLS)],
    }
