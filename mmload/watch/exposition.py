"""Prometheus' text format, as much of it as a few known metrics need.

In: the text, and the names that are wanted. Out: their samples. Servers expose thousands of lines,
nearly all of them histogram buckets: a line that is not wanted costs a look-up and nothing more.
Format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import re
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|\})')
_NO_LABELS: Final = re.compile(r"\s*\}")
_ESCAPE: Final = re.compile(r"\\(.)")


class Reading(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def read(text: str, wanted: Container[str]) -> Iterator[Reading]:
    """The samples of the wanted metrics. A line that is not of the format is passed over."""
    for line in text.splitlines():
        found = _NAME.match(line)
        if found is None or found[0] not in wanted:
            continue
        labels, rest = _labels(line, found.end())
        fields = rest.split()  # a value, perhaps a timestamp
        try:
            value = float(fields[0])
        except (IndexError, ValueError):
            continue
        yield Reading(found[0], labels, value)


def _labels(line: str, at: int) -> tuple[dict[str, str], str]:
    labels: dict[str, str] = {}
    rest = line[at:].lstrip()
    if not rest.startswith("{"):
        return labels, rest
    at = len(line) - len(rest) + 1
    end = _NO_LABELS.match(line, at)
    while end is None:
        found = _LABEL.match(line, at)
        if found is None:
            return labels, ""
        labels[found[1]] = _ESCAPE.sub(_unescaped, found[2])
        at = found.end()
        if found[3] == "}":
            return labels, line[at:]
        end = _NO_LABELS.match(line, at)  # a comma may stand before the brace
    return labels, line[end.end() :]


def _unescaped(found: "re.Match[str]") -> str:
    return "\n" if found[1] == "n" else found[1]
