"""What a sweep keeps of one run: a few figures of its summary, and how it ended.

In: the summary object of docs/summary.md. Out: `Figures`. Only a run that is VALID has them: a
measurement that does not hold must not decide which setting is better.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mmload.hook.stages import PHASES
from mmload.slo import Measure
from mmload.sweep.plan import Work

STATISTICS: Final = ("p50", "p90", "p99", "mean", "max")  # that a summary has


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds and rates of one VALID run; None where the run does not have them."""

    objective_ms: float | None
    ttft_ms: Mapping[str, float]
    e2e_p90_ms: float | None
    throughput_qps: float | None  # requests answered, a second
    failed_share: float
    queue: str  # stable, growing, cant_tell
    growth_per_s: float | None
    phases_ms: Mapping[str, float]  # of the mean request
    bottleneck: str | None
    bottleneck_title: str | None
    capacity_qps: float | None
    utilisation: float | None
    cpu_cores: float | None  # that the server used, on average


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of the sweep. `status`: done, invalid, failed, refused; `figures` of done ones."""

    work: Work
    folder: str
    status: str
    reason: str = ""
    figures: Figures | None = None


def figures(summary: Mapping[str, Any], objective: Measure) -> Figures:
    """The figures of a valid run."""
    sent, ok = summary.get("sent") or 0, summary.get("ok") or 0
    elapsed_s = summary.get("elapsed_s")
    limit = summary.get("bottleneck") or {}
    queue = summary.get("queue") or {}
    stage = limit.get("stage")
    phases = _get(summary, "phases", "mean", "phases") or {}
    ttft = summary.get("ttft_ms") or {}
    return Figures(
        objective_ms=_get(summary, f"{objective.metric}_ms", objective.statistic),
        ttft_ms={q: ttft[q] for q in ("p50", "p90", "p99") if ttft.get(q) is not None},
        e2e_p90_ms=_get(summary, "e2e_ms", "p90"),
        throughput_qps=ok / elapsed_s if ok and elapsed_s else None,
        failed_share=1 - ok / sent if sent else 1.0,
        queue=str(queue.get("verdict") or "cant_tell"),
        growth_per_s=queue.get("growth_per_s"),
        phases_ms={name: phases[name] for name in PHASES if phases.get(name) is not None},
        bottleneck=stage,
        bottleneck_title=_title(summary, limit),
        capacity_qps=limit.get("capacity_qps"),
        utilisation=limit.get("utilisation"),
        cpu_cores=(summary.get("resources") or {}).get("cores_mean"),
    )


def _title(summary: Mapping[str, Any], limit: Mapping[str, Any]) -> str | None:
    """Of a stage, or the first word of `engine (vision encoder, prefill, decode)`."""
    if limit.get("title"):
        return str(limit["title"]).partition(" (")[0]
    title = _get(summary, "stages", limit["stage"], "title") if limit.get("stage") else None
    return None if title is None else str(title)


def _get(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
