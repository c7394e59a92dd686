"""Does the measurement hold? VALID, or INVALID with reasons, each with its cause and its remedy.

In: the measures, how the run ended, and what was asked. Out: the lag limit and a list of sentences;
an empty list is VALID. This judges the generator and the books, never the server: a slow or failing
server is a finding, not an invalid run. An interrupted run can be valid for what it measured.
"""

from typing import Final

import numpy as np

from mmload.analysis.measures import Measures, failures, rate_qps
from mmload.analysis.quantiles import NS_PER_MS, P50, P99, at_quantile
from mmload.records import RecordTable
from mmload.rundir import RunEnd, RunManifest

LAG_SHARE_OF_TTFT: Final = 0.05
MIN_RATE_SHARE: Final = 0.98


def lag_limit_ms(manifest: RunManifest, measures: Measures) -> float:
    """The larger of the manifest's limit and 5 % of the median TTFT, counted from the send.

    From the send, because TTFT from the intended time has the lag in it: a generator must not be
    able to excuse its own lag.
    """
    median_ns = at_quantile(measures.ttft_from_sent_ns, P50) or 0.0
    return round(max(manifest.lag_limit_ms, LAG_SHARE_OF_TTFT * median_ns / NS_PER_MS), 6)


def invalid_reasons(
    manifest: RunManifest,
    end: RunEnd | None,
    table: RecordTable,
    measures: Measures,
    missing: int,
    limit_ms: float,
) -> list[str]:
    """Why the measurement does not hold; empty if it does."""
    reasons = []
    if end is None:
        reasons.append(
            "The run was killed before it ended: what it had recorded is here, the rest is lost."
            " Run it again."
        )
    else:
        reasons += end.problems
        if end.lost_records:
            reasons.append(
                f"Records that could not be written: {end.lost_records}. Free space on the disk of"
                " the run folder, or name another with --out, and run it again."
            )
        elif missing:
            reasons.append(
                f"{missing} of {manifest.planned} planned requests have no record: records.jsonl is"
                " damaged or cut short. Restore it from a copy, or run it again."
            )
    reasons += _load_reasons(manifest, table, measures, limit_ms)
    if measures.sent.any() and not measures.ok.any():
        worst = max(failures(table).items(), key=lambda item: item[1])
        said = table.messages.get(worst[0], [""])[0]
        reasons.append(
            f"No request succeeded ({worst[1]} x {worst[0].replace('_', ' ')}"
            f"{': ' + said if said else ''}). Make one request work first, for instance with a"
            " smaller scenario, then run it again."
        )
    elif end is not None and not measures.sent.any():
        reasons.append(
            "No request was sent, so nothing was measured. Let the run go on for longer."
        )
    return reasons


def _load_reasons(
    manifest: RunManifest, table: RecordTable, measures: Measures, limit_ms: float
) -> list[str]:
    """Reasons why the load was not the one that was asked for."""
    reasons = []
    lag_ns = at_quantile(measures.lag_ns, P99)
    if lag_ns is not None and lag_ns / NS_PER_MS > limit_ms:
        reasons.append(
            f"The generator sent late: lag p99 is {lag_ns / NS_PER_MS:.1f} ms, the limit is"
            f" {limit_ms:.1f} ms. Its machine was too busy or the bodies too large for its network:"
            " lower the rate, add --workers, or move the generator off the server's cores."
        )
    own, achieved, stretch_ms = _rates(table, measures)
    if manifest.load_mode == "open" and own is not None and achieved is not None:
        # A share alone would condemn a few requests sent within milliseconds of one another.
        if achieved < MIN_RATE_SHARE * own and stretch_ms > limit_ms:
            reasons.append(
                f"The generator sent too slowly: {achieved:.1f} requests/s of the schedule's"
                f" {own:.1f}, {achieved / own:.1%}, where {MIN_RATE_SHARE:.0%} is the least. Lower"
                " the rate, add --workers, or move the generator off the server's cores."
            )
    dropped = int(np.count_nonzero(measures.dropped))
    if dropped:
        reasons.append(
            f"Never sent: {dropped} of {len(table)} requests, because the limit on requests in"
            " flight was reached. The load was lighter than asked: raise or remove that limit, or"
            " lower the rate."
        )
    return reasons


def _rates(table: RecordTable, measures: Measures) -> tuple[float | None, float | None, float]:
    """The schedule's own rate, the achieved one, and by how many ms the sends were stretched.

    Both over the requests that were sent, so that neither chance in a Poisson schedule nor an
    interrupted run shows as a shortfall.
    """
    sent_ns, intended_ns = table.times["sent_ns"], table.times["intended_ns"]
    both = measures.sent & ~np.isnan(sent_ns)
    if np.count_nonzero(both) < 2:
        return None, None, 0.0
    sent_ns, intended_ns = sent_ns[both], intended_ns[both]
    stretch_ns = float(np.ptp(sent_ns) - np.ptp(intended_ns))
    return rate_qps(intended_ns), rate_qps(sent_ns), stretch_ns / NS_PER_MS


def is_interrupted(end: RunEnd | None) -> bool:
    return end is None or end.interrupted


def missing_records(manifest: RunManifest, table: RecordTable) -> int:
    """Planned requests without a record: the run was killed, or the file is damaged."""
    return max(0, manifest.planned - len(table))
