"""Colours of phases, stages and classes, and the dashes and shapes that say the same without them.

The phases use the Okabe-Ito palette, which people with any of the common colour blindnesses can
tell apart; within a phase, stages are shades of its colour. Lines also differ by dash, points by
shape.
"""

from typing import Final

PHASE_COLOURS: Final = {
    "client": "#cc79a7",
    "queueing": "#d55e00",
    "cpu": "#0072b2",
    "gpu": "#009e73",
    "output": "#56b4e9",
    "unattributed": "#9a9a9a",
}
PHASE_TEXT: Final = {  # what reads best on top of the phase's colour
    "client": "#1b1f24",
    "queueing": "#1b1f24",
    "cpu": "#ffffff",
    "gpu": "#1b1f24",
    "output": "#1b1f24",
    "unattributed": "#1b1f24",
}

# Paul Tol's "bright" scheme, minus the hues that the phases already own.
SERIES_COLOURS: Final = ("#4477aa", "#aa3377", "#228833", "#ccbb44", "#66ccee", "#222222")
SERIES_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "x")
SERIES_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

FAILURE_COLOURS: Final = ("#d55e00", "#cc79a7", "#e69f00", "#0072b2", "#009e73")
PATTERNS: Final = ("", "/", "x", ".", "-")

INK: Final = "#1b1f24"
MUTED: Final = "#5b6571"
GRID: Final = "#e3e7ec"


def shade(colour: str, step: int, steps: int) -> str:
    """The `step`th of `steps` shades of a `#rrggbb` colour, from itself towards white."""
    lift = 0.6 * step / steps
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * lift):02x}" for part in parts)
