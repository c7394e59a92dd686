"""Latency against rate, and its knee. Pure.

The knee is between the last rate, going up, at which the median of the runs' p90 is at most twice
that of the lowest rate measured, and the next one measured. Twice is a convention (an M/M/1 queue
doubles its mean time in the system at utilisation one half), stated so that it
can be argued with; a curvature rule such as Kneedle needs many more rates than a search visits.
"""

import statistics
from collections.abc import Sequence
from typing import Any, Final

from mmload.capacity.judge import Rate

KNEE_AT: Final = 2.0
STATISTICS: Final = ("p50", "p90", "p99")


def curve(rates: Sequence[Rate], metric: str) -> list[dict[str, Any]]:
    """A row for each rate with valid runs, by rate: medians over its runs."""
    rows = []
    for rate in sorted({one.rate for one in rates}):
        here = [one for one in rates if one.rate == rate and one.verdict != "invalid"]
        if not here:
            continue
        rows.append(
            {
                "rate": rate,
                "runs": len(here),
                "passed": sum(one.verdict == "pass" for one in here),
                **{f"{q}_ms": _median([one.ms(metric, q) for one in here]) for q in STATISTICS},
                "goodput_qps": _median([one.goodput_qps for one in here]),
                "good_share": _median([one.good_share for one in here]),
            }
        )
    return rows


def knee(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Between which rates p90 passes twice its low-rate value; None if it never does."""
    known = [row for row in rows if row["p90_ms"] is not None]
    if not known:
        return None
    limit_ms = KNEE_AT * known[0]["p90_ms"]
    for before, after in zip(known, known[1:], strict=False):
        if after["p90_ms"] > limit_ms:
            return {"above": before["rate"], "up_to": after["rate"], "p90_ms": limit_ms}
    return None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
