"""What the spans predict beside what the search found, and the difference in words. Pure.

The prediction is a stage's width over its mean service time, of the busiest stage whose width is
known; of an engine, whose batched steps are shared, an interval. It says where the queue starts to
grow without end, at utilisation 1; an objective on latency ends earlier, and service times change
under load.
"""

from collections.abc import Sequence
from typing import Any, Final

from mmload.capacity.judge import Rate
from mmload.capacity.search import Bracket

SLOWER: Final = 1.1  # a service time that grew by more is worth a word


def predicted(rates: Sequence[Rate], known: Bracket) -> dict[str, Any] | None:
    """The prediction of the runs at the highest passing rate, else at the lowest tried; and how it
    compares. None without spans."""
    if not rates:
        return None
    at = known.passing if known.passing is not None else min(one.rate for one in rates)
    limit = _limit(rates, at)
    if limit is None or limit["capacity_qps"] is None:
        return None
    capacity: float = limit["capacity_qps"]
    lowest = _limit(rates, min(one.rate for one in rates))
    failing = _limit(rates, known.failing) if known.failing is not None else None
    return {
        "stage": limit["stage"],
        "title": limit["title"],
        "width": limit["width"],
        "service_ms": limit["service_ms"],
        "capacity_qps": capacity,
        "capacity_least_qps": limit["least_qps"],
        "at_rate": at,
        "lowest_service_ms": lowest["service_ms"] if lowest else None,
        "failing_service_ms": failing["service_ms"] if failing else None,
        "sentence": _sentence(rates, known, limit, failing),
    }


def _limit(rates: Sequence[Rate], at: float) -> dict[str, Any] | None:
    """The bottleneck as the last run at that rate saw it."""
    for one in reversed(rates):
        limit = one.summary.get("bottleneck")
        if one.rate == at and limit:
            stage = (one.summary.get("stages") or {}).get(limit["stage"]) or {}
            capacity, width = limit["capacity_qps"], limit["width"]
            return {
                "stage": limit["stage"],
                "title": limit.get("title") or stage.get("title", limit["stage"]),
                "width": width,
                "capacity_qps": capacity,
                "least_qps": limit.get("capacity_least_qps"),
                "service_ms": width * 1000 / capacity if capacity else None,
            }
    return None


def _sentence(
    rates: Sequence[Rate], known: Bracket, limit: dict[str, Any], failing: dict[str, Any] | None
) -> str:
    capacity = limit["capacity_qps"]
    workers = f"{limit['width']} worker{'s' if limit['width'] != 1 else ''}"
    least = limit["least_qps"] or capacity
    spread = f"{least:.3g} to " if least < capacity else ""
    said = (
        f"The spans predict {spread}{capacity:.3g}/s: the {limit['title']} takes"
        f" {limit['service_ms']:.4g} ms of {workers}."
    )
    low, high = known.passing, known.failing
    if high is None:
        return f"{said} No rate failed, so the two cannot be held against each other."
    reasons = [r for one in rates if one.rate == high for r in one.reasons]
    if (low is None or low <= capacity) and least <= high:
        if not spread:
            return f"{said} That is within the interval found: the queue's own limit was reached."
        if any(reason.startswith("the queue") for reason in reasons):
            return f"{said} The interval found agrees: the queue's own limit was reached."
    if low is not None and capacity < low:
        return (
            f"{said} More was carried: its service time or width at the highest passing rate is not"
            " what its spans say on average (batching, or requests that skip it)."
        )
    if failing is not None and failing["stage"] != limit["stage"]:
        return f"{said} Under more load another stage limits: the {failing['title']}."
    before, after = limit["service_ms"], failing["service_ms"] if failing else None
    if before and after and after > SLOWER * before:
        return (
            f"{said} Less was carried: under load the same work takes {after:.4g} ms, since its"
            " workers share cores or a lock."
        )
    if any("the limit" in reason for reason in reasons):
        return (
            f"{said} The objective ends the rate earlier: waiting grows long before utilisation 1"
            f" ({high / capacity:.2f} at the lowest failing rate)."
        )
    return f"{said} Less was carried: {reasons[0] if reasons else 'no reason is known'}."
