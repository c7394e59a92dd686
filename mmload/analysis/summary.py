"""From a run's data to everything a report says: the summary of docs/summary.md, and chart series.

In: manifest, end, records as columns, spans, hook processes, damaged lines. Out: `Analysis`, plain
Python values that strict JSON can hold. Pure: reads no file and no clock, so that a run can be
analysed again later and elsewhere with the same result.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mmload.analysis import sections, sequential, series, token_words, tokens
from mmload.analysis.bottleneck import bottleneck, rounded
from mmload.analysis.definitions import DEFINITIONS
from mmload.analysis.engine import engine_of
from mmload.analysis.growth import Growth, Window, judge, window_of
from mmload.analysis.join import Joined, join
from mmload.analysis.measures import Measures, rate_qps
from mmload.analysis.phases import loop_wait_ms, split
from mmload.analysis.queues import Steps
from mmload.analysis.remedies import remedies
from mmload.analysis.stages import client_stays, server_stays, stage_loads
from mmload.analysis.traps import Findings, as_data, traps
from mmload.analysis.verdict import (
    invalid_reasons,
    is_interrupted,
    lag_limit_ms,
    missing_records,
)
from mmload.analysis.warmup import is_slower, warmup_requests
from mmload.analysis.watched import Watched
from mmload.records import RecordTable, Sample, ServerProcess, Span
from mmload.rundir import RunEnd, RunManifest

SCHEMA: Final = 1


@dataclass(slots=True)
class Analysis:
    """`summary` is the object of docs/summary.md; `series` holds the points of the charts."""

    summary: dict[str, Any]
    series: dict[str, Any]


def summarise(
    manifest: RunManifest,
    end: RunEnd | None,
    table: RecordTable,
    spans: Iterable[Span],
    processes: list[ServerProcess],
    damaged: int = 0,
    *,
    answers: dict[str, Any] | None = None,
    samples: Iterable[Sample] = (),
    profile: dict[str, Any] | None = None,
) -> Analysis:
    """Works out a run. `end` is None when it was killed.

    `spans` is read once, and `processes` looked at only after that: it may be the list that reading
    fills (`SpanLines.processes`). Where `spans` counts its own damaged lines, they are added to
    `damaged`. `answers` is what a `Grader` made of the records, `profile`
    what `profiler.cake` made of a profile; `samples` are those of metrics.jsonl.
    """
    m = Measures.of(table)
    everything = m
    joined = _join(manifest, table, spans, processes)
    damaged += getattr(spans, "damaged", 0)

    missing = missing_records(manifest, table)
    arrivals = table.times["intended_ns"][m.sent]
    done = _done_ns(m, arrivals, end)
    backlog = Steps.of(arrivals, done)
    whole = not (missing or m.unsent.any())  # else the schedule was not played to its end
    window = window_of(arrivals, manifest.schedule_s * 1e9 if whole else 0.0)
    growth = _growth(manifest, window, arrivals, done, backlog)

    # A growing queue has no steady part to find: its start is the fast one.
    warm_up = 0 if growth.verdict == "growing" else warmup_requests(m.ttft_ns)
    cut = warm_up if manifest.scenario.get("cut_warmup") else 0
    if cut:
        m = Measures.of(table, cut)
    parts = split(np.flatnonzero(m.measured & ~np.isnan(m.done_ns)), table.times, joined)
    stays = client_stays(table, m.sent, joined)
    has_spans = np.zeros(len(table), np.bool_)
    if joined is not None:
        stays += server_stays(joined)
        has_spans = joined.has_spans
    arrival_qps = _arrival_qps(manifest, table, m)
    loads = stage_loads(stays, parts, has_spans, arrival_qps, window)
    engine = engine_of(joined, loads, window) if joined is not None else None

    phases = sections.phases(table, parts)
    limit_ms = lag_limit_ms(manifest, m)
    reasons = invalid_reasons(manifest, end, table, m, missing, limit_ms)
    checked = tokens.check(manifest, table, m, joined.frames if joined is not None else None)
    elapsed_s = sections.elapsed_s(arrivals, done)
    watched = Watched(samples, manifest.origin_ns, elapsed_s or 0.0)
    server_series = watched.server_series(backlog)
    found = Findings(
        manifest,
        end,
        table,
        m,
        growth,
        joined,
        loads,
        processes,
        damaged,
        checked=checked,
        loop_wait_ms=loop_wait_ms(parts),
        server_series=server_series,
        profile=profile,
        slow_start=0 if cut or not is_slower(everything.ttft_ns, warm_up) else warm_up,
    )
    summary = {
        "schema": SCHEMA,
        "mmload": manifest.mmload,
        "run": sections.run(manifest),
        "valid": not reasons,
        "invalid_reasons": reasons,
        "interrupted": is_interrupted(end),
        **sections.counts(table, m, missing),
        "asked_qps": manifest.asked_qps,
        "achieved_qps": rounded(rate_qps(table.times["sent_ns"][m.sent])),
        "schedule_s": manifest.schedule_s,
        "elapsed_s": elapsed_s,
        "lag_limit_ms": limit_ms,
        "warmup_cut": cut,
        **sections.latencies(table, m),
        "tokens": sections.tokens(table, m, elapsed_s),
        "classes": sections.classes(table, m),
        "stages": {load.name: sections.stage(load) for load in loads},
        "phases": phases,
        "queue": sections.queue(growth, backlog, loads),
        "bottleneck": bottleneck(loads, arrival_qps, remedies(processes), engine),
        **sections.joins(joined, table, m),
        "unattributed_ms": sections.unattributed(joined, parts),
        "server_series": server_series,
        "resources": watched.resources(),
        "profile": profile,
        "server_processes": [sections.process(one) for one in processes],
        "media": manifest.media,
        "answers": answers,
        "sequential": sequential.table(manifest, table, m),
        "media_check": token_words.section(checked),
        "warnings": as_data(traps(found)),
        "definitions": dict(DEFINITIONS),
    }
    charts = {
        "queue": series.queue(arrivals, done, backlog, loads),
        "latency": series.latency(table, m),
        "curve": series.curves(table, m),
        "split": series.split_bars(phases),
        "outcomes": series.outcomes_over_time(table, m),
        "watched": watched.series(),
    }
    return Analysis(summary, charts)


def _join(
    manifest: RunManifest,
    table: RecordTable,
    spans: Iterable[Span],
    processes: list[ServerProcess],
) -> Joined | None:
    """None when no hook wrote anything: the run was not traced."""
    boot_id = str(manifest.machine.get("boot_id", ""))
    joined = join(table, spans, processes, manifest.origin_ns, boot_id)
    traced = len(joined.row) or joined.stray_ids or joined.ambiguous_ids or processes
    return joined if traced else None


def _done_ns(m: Measures, arrivals: NDArray[np.float64], end: RunEnd | None) -> NDArray[np.float64]:
    """When each sent request left; one of which that is not known stayed to the run's end."""
    done = m.done_ns[m.sent]
    unknown = np.isnan(done)
    if unknown.any():
        known = np.concatenate([done[~unknown], arrivals])
        done[unknown] = max(float(known.max()), float(end.ended_ns) if end else 0.0)
    return done


def _arrival_qps(manifest: RunManifest, table: RecordTable, m: Measures) -> float | None:
    """Requests a second that the schedule brings; without a schedule, that were sent."""
    if manifest.load_mode == "open" and manifest.schedule_s > 0 and manifest.planned:
        return manifest.planned / manifest.schedule_s
    return rate_qps(table.times["sent_ns"][m.sent])


def _growth(
    manifest: RunManifest,
    window: Window,
    arrivals: NDArray[np.float64],
    done: NDArray[np.float64],
    backlog: Steps,
) -> Growth:
    growth = judge(window, arrivals, done - arrivals, backlog)
    if manifest.load_mode == "open":
        return growth
    return growth._replace(
        verdict="cant_tell",
        reason=f"{manifest.load_mode} load: a request waits for an answer, so no queue can grow",
    )
