"""The parts of the summary object, one function a part; docs/summary.md is their contract.

In: what the other modules worked out. Out: plain Python values with the keys of the contract, in
milliseconds. Nothing is decided here: this only names and rounds.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.bottleneck import rounded
from mmload.analysis.growth import Growth
from mmload.analysis.join import Joined
from mmload.analysis.measures import Floats, Mask, Measures, classes_in_order, failures
from mmload.analysis.offset import ClockOffset
from mmload.analysis.phases import UNATTRIBUTED, Split
from mmload.analysis.quantiles import P50, P90, P99, dist, ms, nearest_rank
from mmload.analysis.queues import Steps
from mmload.analysis.stages import StageLoad
from mmload.hook.stages import PHASES
from mmload.records import RecordTable, ServerProcess
from mmload.rundir import RunManifest

Section = dict[str, Any]


def run(manifest: RunManifest) -> Section:
    return {
        "name": manifest.name,
        "digest": manifest.digest,
        "started_at": manifest.started_at,
        "target": manifest.target,
        "model": manifest.model,
        "load_mode": manifest.load_mode,
        "machine": manifest.machine,
        "server": manifest.server,
        "launched": manifest.launched,
        "warmup_requests": manifest.warmup,
        "simulated": manifest.simulated,
        "span_source": manifest.span_source,
        "scenario": manifest.scenario,
    }


def counts(table: RecordTable, m: Measures, missing: int) -> Section:
    """planned = sent + dropped + unsent + missing, and sent = ok + all of failed, by making."""
    return {
        "planned": len(table) + missing,
        "sent": _count(m.sent),
        "dropped": _count(m.dropped),
        "unsent": _count(m.unsent),
        "missing": missing,
        "ok": _count(m.ok),
        "failed": failures(table),
        "failure_messages": dict(table.messages),
    }


def latencies(table: RecordTable, m: Measures) -> Section:
    return {
        "lag_ms": dist(m.lag_ns),
        "ttft_ms": dist(m.ttft_ns),
        "ttft_from_sent_ms": dist(m.ttft_from_sent_ns),
        "ttfo_ms": dist(m.ttfo_ns),
        "tpot_ms": dist(m.tpot_ns),
        "chunk_gap_ms": dist(table.gaps_ns),
        "e2e_ms": dist(m.e2e_ns),
        "e2e_from_sent_ms": dist(m.e2e_from_sent_ns),
    }


def tokens(table: RecordTable, m: Measures, elapsed_s: float | None) -> Section:
    """Totals over the ok requests; a total is None where no answer's usage named it."""
    totals: Section = {
        name: _total(table.counts[f"{name}_tokens"][m.ok])
        for name in ("prompt", "output", "cached", "media")
    }
    made = float(np.nansum(m.tokens))
    totals["source"] = m.token_source
    totals["output_per_s"] = round(made / elapsed_s, 3) if elapsed_s else None
    return totals


def classes(table: RecordTable, m: Measures) -> Section:
    """The same figures for each media class."""
    made = {}
    for name, code in classes_in_order(table):
        mine = table.media_class == code
        ok = m.ok & mine
        made[name] = {
            "planned": _count(mine),
            "sent": _count(m.sent & mine),
            "ok": _count(ok),
            "failed": failures(table, mine),
            "lag_ms": dist(m.lag_ns[mine]),
            "ttft_ms": dist(m.ttft_ns[mine]),
            "ttft_from_sent_ms": dist(m.ttft_from_sent_ns[mine]),
            "tpot_ms": dist(m.tpot_ns[mine]),
            "e2e_ms": dist(m.e2e_ns[mine]),
            "body_bytes": _mean(table.counts["bytes_sent"][m.sent & mine]),
            "prompt_tokens": _mean(table.counts["prompt_tokens"][ok]),
            "cached_tokens": _mean(table.counts["cached_tokens"][ok]),
            "media_tokens": _mean(table.counts["media_tokens"][ok]),
            "output_tokens": _mean(table.counts["output_tokens"][ok]),
        }
    return made


def stage(load: StageLoad) -> Section:
    return {
        "title": load.title,
        "phase": load.phase,
        "ms": load.ms,
        "self_ms": load.self_ms,
        "mean_ms": load.ms["mean"] if load.ms else None,
        "n": load.n,
        "calls": load.calls,
        "utilisation": rounded(load.utilisation),
        "observed_width": load.observed_width,
        "configured_width": load.configured_width,
        "capacity_qps": rounded(load.capacity_qps),
        "off_cpu_share": rounded(load.off_cpu_share),
        "batched": load.batched,
        "on_loop": load.on_loop,
        "facts": load.facts,
    }


def phases(table: RecordTable, parts: Split) -> Section:
    """The split of the mean request, and of the very requests at p50, p90 and p99 of E2E."""
    n = len(parts.rows)
    if not n:
        return {"mean": None, "p50": None, "p90": None, "p99": None}
    made: Section = {"mean": _column(parts, parts.ns.mean(axis=0))}
    slowest = np.argsort(parts.wall_ns, kind="stable")
    for name, q in (("p50", P50), ("p90", P90), ("p99", P99)):
        i = int(slowest[nearest_rank(n, q) - 1])
        row = int(parts.rows[i])
        who = {"request_id": table.request_ids[row], "index": int(table.index[row])}
        made[name] = who | _column(parts, parts.ns[i])
    return made


def _column(parts: Split, ns: NDArray[Any]) -> Section:
    # No stage of a phase seen: no number, as 0 would say that it took no time.
    of_phase = {phase: 0.0 for phase in PHASES if phase in parts.phases}
    for phase, value in zip(parts.phases, ns, strict=True):
        of_phase[phase] += float(value)
    of_stage = dict(zip(parts.stages, ns, strict=True))
    del of_stage[UNATTRIBUTED]
    return {
        "e2e_ms": ms(float(ns.sum())),
        "phases": {phase: ms(value) for phase, value in of_phase.items()},
        "stages": {name: ms(value) for name, value in of_stage.items()},
    }


def queue(growth: Growth, backlog: Steps, loads: list[StageLoad]) -> Section:
    return {
        **_growth(growth),
        "in_flight_max": backlog.max,
        "smallest_overload_seen": rounded(growth.smallest_overload_seen),
        "reason": growth.reason,
        "stages": {load.name: _growth(load.growth) for load in loads},
    }


def _growth(growth: Growth) -> Section:
    return {"verdict": growth.verdict, "growth_per_s": rounded(growth.growth_per_s)}


def joins(joined: Joined | None, table: RecordTable, m: Measures) -> Section:
    """How spans and requests fit. Without spans nothing is joined, and nothing is stray."""
    with_spans = joined.has_spans if joined is not None else np.zeros(len(table), np.bool_)
    return {
        "joined": _count(m.sent & with_spans),
        "unjoined": _count(m.sent & ~with_spans),
        "joined_partly": _partly(joined, table, m) if joined is not None else 0,
        "stray_spans": joined.stray_ids if joined is not None else 0,
        "ambiguous_spans": joined.ambiguous_ids if joined is not None else 0,
        "repeated_spans": joined.repeated_spans if joined is not None else 0,
        "reversed_spans": joined.reversed_spans if joined is not None else 0,
        "clock_offsets": [_offset(offset) for offset in joined.offsets]
        if joined is not None
        else [],
    }


def _partly(joined: Joined, table: RecordTable, m: Measures) -> int:
    """Joined ok requests that lack a stage which 9 in 10 of their class have."""
    rows = np.flatnonzero(m.ok & joined.has_spans)
    place = np.full(len(table), -1, np.int64)
    place[rows] = np.arange(len(rows))
    owner = place[joined.row]
    has = np.zeros((len(rows), len(joined.stage_names)), np.bool_)
    has[owner[owner >= 0], joined.stage[owner >= 0]] = True
    short = 0
    for code in range(len(table.class_names)):
        of_class = has[table.media_class[rows] == code]
        if len(of_class):
            usual = of_class.mean(axis=0) >= 0.9
            short += _count(~of_class[:, usual].all(axis=1))
    return short


def _offset(offset: ClockOffset) -> Section:
    return {
        "lo_ms": ms(offset.lo_ns),
        "hi_ms": ms(offset.hi_ns),
        "drift_ppm": round(offset.drift * 1e6, 3),
        "consistent": offset.consistent,
        "exchanges": offset.exchanges,
    }


def unattributed(joined: Joined | None, parts: Split) -> Section | None:
    if joined is None:
        return None
    of_joined = joined.has_spans[parts.rows]
    return dist(parts.ns[of_joined, -1].astype(np.float64))


def process(one: ServerProcess) -> Section:
    return {
        "pid": one.pid,
        "role": one.role,
        "host": one.host,
        "hook": one.hook,
        "python": one.python,
        "settings": one.settings,
        "notes": one.notes,
        "lost": one.lost,
    }


def elapsed_s(arrivals_ns: Floats, done_ns: Floats) -> float | None:
    """From the first intended instant to the last request's end."""
    done_ns = done_ns[~np.isnan(done_ns)]
    if not len(done_ns):
        return None
    return round(float(done_ns.max() - arrivals_ns.min()) / 1e9, 6)


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


def _total(values: Floats) -> int | None:
    known = values[~np.isnan(values)]
    return int(known.sum()) if len(known) else None


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return round(float(known.mean()), 3) if len(known) else None
