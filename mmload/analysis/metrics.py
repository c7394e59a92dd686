"""Numbers of a run by name: `ttft:p90`, `processor:mean`, `achieved`; for tables and thresholds.

In: a name, and the summary object of docs/summary.md (or one of its classes). Out: a `Metric`, and
its value, or None where the run does not have it. Never guesses: an unknown name raises ValueError
with what is allowed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Summary = dict[str, Any]

QUANTILES: Final = ("mean", "p50", "p90", "p99", "p99.9", "max")
LATENCIES: Final = {
    "ttft": "TTFT",
    "ttft-from-sent": "TTFT from sent",
    "ttfo": "TTFO",
    "tpot": "TPOT",
    "chunk-gap": "chunk gap",
    "e2e": "E2E",
    "e2e-from-sent": "E2E from sent",
    "lag": "schedule lag",
}
# The declared family of a comparison, unless another is named: small, since every further metric
# makes a difference harder to show.
HEADLINE: Final = ("ttft:p50", "ttft:p90", "ttft:p99", "e2e:p90", "achieved")


@dataclass(frozen=True, slots=True)
class Metric:
    """`relative`: a change in per cent means something (the base is never near 0 by nature)."""

    name: str
    title: str
    unit: Literal["ms", "requests/s", "tokens/s", "requests", "share"]
    better: Literal["lower", "higher"]
    relative: bool

    def value(self, summary: Summary) -> float | None:
        """Its value in a run or in one class of a run."""
        key, _, quantile = self.name.partition(":")
        if not quantile:
            return _SCALARS[key](summary)
        if key in LATENCIES:
            dist = summary.get(f"{key.replace('-', '_')}_ms")
        else:
            dist = ((summary.get("stages") or {}).get(key) or {}).get("ms")
        found = (dist or {}).get(quantile.replace(".", "_"))
        return None if found is None else float(found)


def metric(name: str, stages: Collection[str] = ()) -> Metric:
    """The metric of a name; `stages` are those that the runs have. Raises ValueError."""
    key, colon, quantile = name.strip().partition(":")
    if key in _ALONE:
        if colon:
            raise ValueError(f"{key} is one number a run: leave out ':{quantile}'")
        return _ALONE[key]
    if key not in LATENCIES and key not in stages:
        with_percentile = ", ".join([*LATENCIES, *stages])
        raise ValueError(
            f"no metric {key!r}: allowed are {', '.join(_ALONE)}, and with a percentile"
            f" {with_percentile}"
        )
    if quantile not in QUANTILES:
        raise ValueError(f"{name.strip()!r}: {key} needs one of {', '.join(QUANTILES)}: {key}:p90")
    return Metric(f"{key}:{quantile}", f"{LATENCIES.get(key, key)} {quantile}", "ms", "lower", True)


def _failed(summary: Summary) -> float:
    return float(sum((summary.get("failed") or {}).values()))


def _failed_share(summary: Summary) -> float | None:
    sent = summary.get("sent")
    return _failed(summary) / sent if sent else None


def _growth(summary: Summary) -> float | None:
    """None of a closed loop, which waits for answers and cannot grow a queue."""
    return _number("queue", "growth_per_s")(summary) if open_loop(summary) else None


def open_loop(summary: Summary) -> bool:
    """Whether requests came by a schedule, whatever the server did: else none can queue up."""
    return bool(((summary.get("run") or {}).get("load_mode") or "open") == "open")


def _number(*path: str) -> Callable[[Summary], float | None]:
    def value(summary: Summary) -> float | None:
        found: Any = summary
        for key in path:
            found = (found or {}).get(key)
        return None if found is None else float(found)

    return value


_SCALARS: Final[Mapping[str, Callable[[Summary], float | None]]] = {
    "achieved": _number("achieved_qps"),
    "failed": _failed,
    "failed-share": _failed_share,
    "growth": _growth,
    "in-flight": _number("queue", "in_flight_max"),
    "tokens": _number("tokens", "output_per_s"),
}
_ALONE: Final = {
    "achieved": Metric("achieved", "requests/s sent", "requests/s", "higher", True),
    "failed": Metric("failed", "failed requests", "requests", "lower", False),
    "failed-share": Metric("failed-share", "share failed", "share", "lower", False),
    "growth": Metric("growth", "queue growth, /s", "requests/s", "lower", False),
    "in-flight": Metric("in-flight", "most in flight", "requests", "lower", True),
    "tokens": Metric("tokens", "output tokens/s", "tokens/s", "higher", True),
}
