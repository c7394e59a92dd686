"""One run at one rate: does it pass, why not, and what do its spans say of the limit. Pure.

In: the run's records and summary, and the objectives. Out: a `Rate`. A run passes if it is VALID,
every objective holds, and its queue is stable; a queue that "can't tell" makes it unsure.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmload.analysis.measures import Measures
from mmload.analysis.objectives import Held, good, held
from mmload.capacity.search import Trial, Verdict
from mmload.records import RecordTable
from mmload.slo import Slo


@dataclass(frozen=True, slots=True)
class Rate:
    """One run of the search."""

    rate: float
    why: str  # start, bracket, bisect, confirm
    folder: str
    verdict: Verdict
    reasons: tuple[str, ...]  # why it does not pass, in words
    held: tuple[Held, ...]
    goodput_qps: float
    good_share: float
    summary: Mapping[str, Any]

    @property
    def trial(self) -> Trial:
        limit = self.summary.get("bottleneck") or {}
        most, least = limit.get("capacity_qps"), limit.get("capacity_least_qps")
        return Trial(self.rate, self.verdict, math.sqrt(most * least) if most and least else most)

    def ms(self, metric: str, statistic: str) -> float | None:
        found: float | None = (self.summary.get(f"{metric}_ms") or {}).get(statistic)
        return found


def judge(
    rate: float,
    why: str,
    folder: str,
    table: RecordTable,
    summary: Mapping[str, Any],
    slos: Sequence[Slo],
) -> Rate:
    """The verdict on a finished run."""
    measures = Measures.of(table)
    results = tuple(held(measures, slo) for slo in slos)
    met = int(np.count_nonzero(good(measures, slos)))
    sent = int(np.count_nonzero(measures.sent))
    schedule_s = summary.get("schedule_s") or 0.0
    reasons: list[str] = []
    verdict: Verdict
    if sent and not summary["ok"] and not summary["interrupted"]:
        verdict = "fail"  # the server's doing, whatever else there is to say of the run
        reasons.append("no request succeeded")
    elif not summary["valid"]:
        verdict = "invalid"
        reasons += summary["invalid_reasons"][:1]
    else:
        reasons += [_missed(one) for one in results if not one.met]
        queue = summary["queue"]["verdict"]
        if queue == "growing":
            reasons.append(f"the queue grows by {summary['queue']['growth_per_s']:.2g}/s")
        verdict = "fail" if reasons else "pass" if queue == "stable" else "unsure"
        if queue == "cant_tell":
            reasons.append(f"the queue is not shown to be stable: {summary['queue']['reason']}")
    return Rate(
        rate=rate,
        why=why,
        folder=folder,
        verdict=verdict,
        reasons=tuple(reasons),
        held=results,
        goodput_qps=met / schedule_s if schedule_s else 0.0,
        good_share=met / sent if sent else 0.0,
        summary=summary,
    )


def _missed(one: Held) -> str:
    if one.value_ms is None:
        return f"{one.slo.measure.title} falls on a failed request"
    return (
        f"{one.slo.measure.title} is {one.value_ms:,.4g} ms, the limit {one.slo.limit_ms:,.4g} ms"
    )
