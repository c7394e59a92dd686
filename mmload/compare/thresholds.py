"""`--fail-if 'ttft:p99 > +5%'`: thresholds for CI, read from text and held against a comparison.

    METRIC OP LIMIT    METRIC as in `analysis.metrics`; OP one of > >= < <=
    LIMIT  +5% or -2%  the change of the medians against the base, in per cent; the sign is needed
           500ms, 2s   the median over the side's runs; for latencies
           3, 4.5/s    the same for counts and rates; `failed` and `failed > 1%` (of the requests
                       sent) look at the worst run instead: one failing run of five is a failure

Every side but the base is judged. A metric without a value fails: a gate must not pass because
nothing was measured. With `significant`, a change must also be shown by the test.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from mmload.analysis.metrics import Metric, metric
from mmload.errors import UsageError

_SHAPE: Final = re.compile(
    r"\s*(?P<name>[^<>=]+?)\s*(?P<op>>=|<=|>|<)\s*(?P<sign>[+-]?)(?P<number>\d+(?:\.\d+)?)"
    r"\s*(?P<unit>%|us|ms|s|/s)?\s*"
)
_TO_MS: Final = {"us": Decimal("0.001"), "ms": Decimal(1), "s": Decimal(1000)}
_ALLOWED: Final = (
    "write METRIC > LIMIT (or >=, <, <=) with a change (+5%, -2%), a time (500ms, 2s), a rate"
    " (4.5/s) or a count, such as 'ttft:p99 > +5%', 'e2e:p90 > 500ms', 'failed > 0'"
)


@dataclass(frozen=True, slots=True)
class Threshold:
    """One `--fail-if`. `limit` is in per cent for changes, else in the metric's unit."""

    text: str
    metric: Metric
    op: str
    limit: float
    is_change: bool

    def broken_by(self, value: float) -> bool:
        return {
            ">": value > self.limit,
            ">=": value >= self.limit,
            "<": value < self.limit,
            "<=": value <= self.limit,
        }[self.op]


def parse(text: str, stages: Collection[str]) -> Threshold:
    """Reads one threshold; `stages` are those of the runs. Raises UsageError."""
    where = f"--fail-if {text!r}"
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise UsageError(f"{where}: is not a threshold", _ALLOWED)
    name, sign, unit = found["name"], found["sign"], found["unit"] or ""
    try:
        of = metric(name, stages)
    except ValueError as error:
        raise UsageError(f"{where}: {error}", "such as 'ttft:p99 > +5%'") from None
    number = Decimal(f"{sign}{found['number']}")  # as written: 210420us is 210.42 ms
    words = " ".join(text.split())
    if unit == "%":
        if of.name == "failed" and not sign:
            return Threshold(words, metric("failed-share"), found["op"], float(number / 100), False)
        if not of.relative:
            raise UsageError(
                f"{where}: {of.title} is often 0, so a change in % says nothing",
                f"name a value: '{of.name} {found['op']} 0.5'",
            )
        if not sign:
            raise UsageError(
                f"{where}: is {found['number']}% a change?",
                f"write +{found['number']}% or -{found['number']}%",
            )
        return Threshold(words, of, found["op"], float(number), True)
    return Threshold(words, of, found["op"], float(number * _factor(of, unit, where)), False)


def _factor(of: Metric, unit: str, where: str) -> Decimal:
    if of.unit == "ms":
        if unit not in _TO_MS:
            raise UsageError(f"{where}: {of.title} is a time", "give the limit in us, ms or s")
        return _TO_MS[unit]
    if unit and not (unit == "/s" and of.unit.endswith("/s")):
        raise UsageError(f"{where}: {of.title} is in {of.unit}, not {unit}", "leave the unit out")
    return Decimal(1)


def judge(
    thresholds: Sequence[Threshold], comparison: dict[str, Any], *, significant: bool = False
) -> list[dict[str, Any]]:
    """docs/compare.md's `thresholds`: each threshold on each side but the base."""
    rows = {row["name"]: row for row in comparison["metrics"]}
    labels = [side["label"] for side in comparison["sides"]]
    judged = []
    if any(one.metric.name == "growth" for one in thresholds) and any(
        side["load_mode"] != "open" for side in comparison["sides"]
    ):
        raise UsageError(
            "--fail-if growth: these runs are a closed loop, which cannot grow a queue",
            "leave it out, or give a rate (--qps)",
        )
    for one in thresholds:
        for number, label in enumerate(labels[1:], 1):
            row = rows.get(one.metric.name)
            value = _value(one, row, number)
            shown = row["changes"][number - 1]["shown"] if row else None
            failed = value is None or one.broken_by(value)
            if one.is_change and significant and value is not None:
                failed = failed and shown is True
            judged.append(
                {
                    "threshold": one.text,
                    "side": label,
                    "metric": one.metric.name,
                    "value": value,
                    "in": "%" if one.is_change else one.metric.unit,
                    "shown": shown,
                    "failed": failed,
                }
            )
    return judged


def _value(one: Threshold, row: dict[str, Any] | None, number: int) -> float | None:
    if row is None:
        return None
    side = row["sides"][number]
    found: float | None
    if one.is_change:
        found = row["changes"][number - 1]["percent"]
    elif one.metric.name.startswith("failed"):
        found = max(side["values"], default=None)
    else:
        found = side["median"]
    return found
