"""Service-level objectives as people write them: `ttft:p99<500ms`, `e2e:p90<2s`, `tpot:mean<40ms`.

In: text. Out: `Slo`, a measure (what, and which statistic of it) with a limit in nanoseconds. One
parser for every command that takes an objective; nothing here looks at a run.
"""

import difflib
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from mmload.clock import NS_PER_MS, NS_PER_S
from mmload.errors import UsageError

METRICS: Final = {
    "ttft": "TTFT",
    "ttft_from_sent": "TTFT from sent",
    "ttfo": "TTFO",
    "tpot": "TPOT",
    "e2e": "E2E",
    "e2e_from_sent": "E2E from sent",
}
_FORM: Final = "METRIC:STATISTIC, as in ttft:p99; statistics are p1 to p99.9, mean and max"
_UNITS_NS: Final = {"us": 1000, "ms": NS_PER_MS, "s": NS_PER_S}


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a run: a metric's percentile, mean or maximum."""

    metric: str  # a key of METRICS
    statistic: str  # p50, p99.9, mean, max

    @property
    def title(self) -> str:
        """As reports say it: "TTFT p99"."""
        return f"{METRICS[self.metric]} {self.statistic}"

    @property
    def quantile(self) -> Fraction | None:
        """The percentile as an exact fraction; None for mean and max."""
        if not self.statistic.startswith("p"):
            return None
        return Fraction(self.statistic[1:]) / 100

    def __str__(self) -> str:
        return f"{self.metric.replace('_', '-')}:{self.statistic}"


@dataclass(frozen=True, slots=True)
class Slo:
    """`measure` has to stay under `limit_ns`."""

    measure: Measure
    limit_ns: int

    @property
    def limit_ms(self) -> float:
        return self.limit_ns / NS_PER_MS

    def __str__(self) -> str:
        ms = self.limit_ms
        limit = f"{ms / 1000:g}s" if ms >= 1000 else f"{ms:g}ms"
        return f"{self.measure}<{limit}"


def parse_measure(text: str, flag: str) -> Measure:
    """A measure such as `ttft:p90`. Raises UsageError that names `flag`."""
    metric, colon, statistic = (part.strip().lower() for part in text.partition(":"))
    metric = metric.replace("-", "_")
    if metric not in METRICS:
        close = difflib.get_close_matches(metric, METRICS, n=1)
        names = ", ".join(name.replace("_", "-") for name in METRICS)
        raise UsageError(
            f"{flag} {text!r}: no such metric",
            f"did you mean {close[0]}?" if close else f"metrics are {names}",
        )
    if not colon or not _is_statistic(statistic):
        raise UsageError(f"{flag} {text!r} is not allowed: {_FORM}", f"write {metric}:p99")
    return Measure(metric, statistic)


def parse_slo(text: str, flag: str = "--slo") -> Slo:
    """An objective such as `ttft:p99<500ms`. Raises UsageError that names `flag`."""
    measure, less, limit = text.partition("<")
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s)\s*", limit)
    if not less or found is None:
        raise UsageError(
            f"{flag} {text!r} is not allowed: write METRIC:STATISTIC<LIMIT, with us, ms or s",
            "as in 'ttft:p99<500ms', with the quotes",
        )
    limit_ns = round(Fraction(found[1]) * _UNITS_NS[found[2]])
    if limit_ns <= 0:
        raise UsageError(f"{flag} {text!r}: nothing is faster than 0", "name a limit above 0")
    return Slo(parse_measure(measure, flag), limit_ns)


def _is_statistic(text: str) -> bool:
    if text in ("mean", "max"):
        return True
    found = re.fullmatch(r"p(\d{1,2}(?:\.\d{1,2})?)", text)
    return found is not None and Fraction(found[1]) > 0
