"""Were the objectives met, and by how many requests: SLO values and goodput of one run.

In: the measures of a run's records and the objectives. Out: values in milliseconds, whether each
holds, and how many requests met all. A request that failed is later than any limit, so that a
server cannot meet an objective by refusing: it counts in percentiles, and a mean or maximum over it
does not hold. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.measures import Measures
from mmload.analysis.quantiles import NS_PER_MS, at_quantile
from mmload.slo import Slo


@dataclass(frozen=True, slots=True)
class Held:
    """One objective in one run. `value_ms` is None when the percentile falls on a failed request,
    or nothing was sent."""

    slo: Slo
    value_ms: float | None
    met: bool


def held(measures: Measures, slo: Slo) -> Held:
    """Whether the run met the objective."""
    values = _values(measures, slo)[measures.sent]
    if not len(values):
        return Held(slo, None, False)
    quantile = slo.measure.quantile
    if quantile is not None:
        found = at_quantile(values, quantile)
    else:
        known = values[~np.isnan(values)]
        of = np.mean if slo.measure.statistic == "mean" else np.max
        found = float(of(known)) if len(known) else None
    if found is None:  # no request has the measure, as TPOT of answers of one token
        return Held(slo, None, True)
    if np.isinf(found):
        return Held(slo, None, False)
    return Held(slo, found / NS_PER_MS, found < slo.limit_ns)


def good(measures: Measures, slos: Sequence[Slo]) -> NDArray[np.bool_]:
    """Requests that succeeded with every one of the objectives' metrics under its limit."""
    met = measures.sent & measures.ok
    for slo in slos:
        values = _values(measures, slo)
        met &= np.isnan(values) | (values < slo.limit_ns)
    return met


def _values(measures: Measures, slo: Slo) -> NDArray[np.float64]:
    """The metric, infinite for failed requests; NaN where an ok request does not have it."""
    values: NDArray[np.float64] = getattr(measures, f"{slo.measure.metric}_ns")
    failed = measures.sent & ~measures.ok
    if slo.measure.metric == "ttfo":  # an answer of reasoning alone is no answer
        failed = failed | (measures.ok & np.isnan(values))
    return np.where(failed, np.inf, values)
