"""Numbers as text: three significant digits or so, always with their unit, "-" for "not there".

Milliseconds turn into seconds from 10 s on. A value is rounded before its unit is chosen, so that
9,999.7 ms reads "10.0 s" and never "10,000 ms".
"""

from typing import Final

NONE: Final = "-"
SECONDS_FROM_MS: Final = 10_000


def digits(value: float) -> str:
    """Three significant digits down to a thousandth; whole numbers, with commas, from 100 on."""
    for floor, decimals in ((100, 0), (10, 1), (1, 2), (0.1, 2)):
        if abs(round(value, decimals + 1)) >= floor:  # as the next smaller form would print it
            return f"{value:,.{decimals}f}"
    if round(value, 3):
        return f"{value:.3f}"
    return "<0.001" if value else "0"


def ms(value: float | None) -> str:
    """A duration given in milliseconds: `301 ms`, `1,235 ms`, `12.3 s`."""
    if value is None:
        return NONE
    if abs(round(value)) >= SECONDS_FROM_MS:
        return f"{digits(value / 1000)} s"
    return f"{digits(value)} ms"


def seconds(value: float | None) -> str:
    """A duration given in seconds: `30.0 s`."""
    return NONE if value is None else f"{digits(value)} s"


def rate(value: float | None) -> str:
    """A rate without its unit, which the text around it names: `5.00`."""
    return NONE if value is None else digits(value)


def count(value: float | None) -> str:
    """Whole things: `1,500`."""
    return NONE if value is None else f"{value:,.0f}"


def percent(fraction: float | None) -> str:
    """A fraction as a percentage: `93%`, `0.4%`."""
    if fraction is None:
        return NONE
    value = fraction * 100
    if round(value, 1) == 0:
        return "0%" if value == 0 else "<0.1%"
    return f"{value:,.0f}%" if round(value) >= 10 else f"{value:.1f}%"


def size(value: float | None) -> str:
    """Bytes in decimal units: `1.24 MB`."""
    if value is None:
        return NONE
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{digits(value / factor)} {unit}"
    return f"{value:,.0f} bytes"


def plural(number: float, noun: str) -> str:
    """`1 request`, `150 requests`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"
