"""Warnings as data: what may make a reader misread a valid run, and what to do about it.

In: everything that was worked out of the run, as one `Findings`. Out: a list of `Trap`, those that
change the reading most first. A trap never changes a figure or the verdict.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from mmload.analysis import processor_words
from mmload.analysis.bottleneck import idle_pools, loop_load
from mmload.analysis.growth import Growth
from mmload.analysis.join import Joined
from mmload.analysis.loop import culprits
from mmload.analysis.measures import Measures, classes_in_order, failures
from mmload.analysis.quantiles import MIN_SAMPLES_P99, P50, at_quantile
from mmload.analysis.stages import StageLoad
from mmload.analysis.token_words import warnings as token_warnings
from mmload.analysis.tokens import Checked
from mmload.analysis.watched import unseen_sentence
from mmload.records import RecordTable, ServerProcess
from mmload.rundir import RunEnd, RunManifest

BLOCKS_ALWAYS_MS: Final = 20.0  # a request, on the event loop: every stream stalls so long
BLOCKS_SOMEBODY_MS: Final = 10.0  # that requests waited for a held-up loop, at the mean
HELD_UP_WORTH_TELLING_NS: Final = 500_000_000  # in a run, by one function
CACHED_SHARE: Final = 0.1  # a shared text prefix is far less than that of a multimodal prompt


class Trap(NamedTuple):
    """`code` is for programs and stays; `message` says what was seen; `hint` what to do."""

    code: str
    message: str
    hint: str


@dataclass(slots=True)
class Findings:
    """What the traps are looked for in."""

    manifest: RunManifest
    end: RunEnd | None
    table: RecordTable
    measures: Measures
    growth: Growth
    joined: Joined | None
    loads: list[StageLoad]
    processes: list[ServerProcess]
    damaged: int
    checked: Checked | None = None
    loop_wait_ms: float = 0.0  # mean over the requests, of waiting for a held-up event loop
    server_series: dict[str, Any] | None = None
    profile: dict[str, Any] | None = None
    slow_start: int = 0  # requests at the start that were slower, and are in the figures


def traps(found: Findings) -> list[Trap]:
    """All traps of a run."""
    return [
        *_of_load(found),
        *(Trap(*warning) for warning in token_warnings(found.checked)),
        *_of_answers(found),
        *_of_server(found),
        *_of_files(found),
    ]


def _of_load(found: Findings) -> Iterator[Trap]:
    m, growth = found.measures, found.growth
    if found.manifest.simulated:
        yield Trap(
            "simulated",
            f"Parts of the server are simulated: {found.manifest.simulated}.",
            "Read those parts as assumptions, not as measurements.",
        )
    if growth.verdict == "growing":
        yield Trap(
            "growing",
            f"The queue grows by {growth.growth_per_s:.2f} requests a second for as long as the"
            " load lasts, so percentiles say how long the run was, not how fast the server is.",
            "Quote the growth and the capacity; for a latency to quote, lower the rate.",
        )
    if found.end is not None and found.end.interrupted:
        done = int(np.count_nonzero(m.sent))
        yield Trap(
            "interrupted",
            f"The run was interrupted after {done} of {found.manifest.planned} requests.",
            "Every figure covers that part only.",
        )
    failed = failures(found.table)
    if failed:
        kinds = ", ".join(f"{n} x {kind.replace('_', ' ')}" for kind, n in failed.items())
        yield Trap(
            "failures",
            f"{sum(failed.values())} of {np.count_nonzero(m.sent)} requests failed: {kinds}.",
            "Latencies are of the requests that succeeded; a server that fails fast looks fast.",
        )
    if found.table.retried:
        yield Trap(
            "retried",
            f"{found.table.retried} of {np.count_nonzero(m.sent)} requests were sent more than once"
            f" ({found.table.resent} attempts more). The waits and the failed attempts are in their"
            " TTFT and E2E, and in the send stage.",
            "`attempts` in records.jsonl lists them. Without --retries each would be a failure.",
        )
    ok = int(np.count_nonzero(m.ok))
    if 0 < ok < MIN_SAMPLES_P99:
        yield Trap(
            "few_samples",
            f"p99 of {ok} requests is little more than the slowest one or two: it takes"
            f" {MIN_SAMPLES_P99} for a bound on it.",
            "Quote p50 and p90, or run for longer.",
        )
    if found.slow_start:
        yield Trap(
            "slow_start",
            f"The first {found.slow_start} requests were slower than the rest: a warm-up.",
            "Send more warm-up requests (--warmup), or leave these out with --cut-warmup.",
        )
    for note in (*found.manifest.notes, *(found.end.notes if found.end is not None else ())):
        yield Trap("note", note, "")


def _of_answers(found: Findings) -> Iterator[Trap]:
    m, table = found.measures, found.table
    ok = int(np.count_nonzero(m.ok))
    single = int(np.count_nonzero(m.ok & (table.chunks <= 1) & (m.tokens > 1)))
    if single * 2 > ok:
        yield Trap(
            "single_chunk",
            f"{single} of {ok} answers came in one piece, so they have no TPOT and their TTFT is"
            " the time to the whole answer.",
            "Ask for streaming, or see whether a proxy collects the stream.",
        )
    hits = list(_cache_hits(found))
    if hits:
        yield Trap(
            "cache_hits",
            "The server answered prompt tokens from its cache although no media was repeated:"
            f" {', '.join(hits)}.",
            "Make the prompts distinct too, or switch prefix caching off on the server.",
        )
    media = found.manifest.media
    repeated = media.get("reuse_actual") or 0
    if media.get("reuse_asked", 0) is None and repeated > 0:
        yield Trap(
            "repeated_media",
            f"{repeated:.0%} of the requests repeated a file: a server's caches may answer them.",
            "Declare it with --reuse, ask for --reuse 0 (files are then varied), or add files.",
        )
    ttft, ttfo = at_quantile(m.ttft_ns, P50), at_quantile(m.ttfo_ns, P50)
    if ttft is not None and ttfo is not None and ttfo > 1.5 * ttft:
        yield Trap(
            "reasoning",
            f"The first answer comes {(ttfo - ttft) / 1e6:.0f} ms after the first output at the"
            " median: reasoning comes first.",
            "Quote TTFO for what a user waits for, or switch reasoning off.",
        )


def _cache_hits(found: Findings) -> Iterator[str]:
    """`83% of image 854x480`: classes with media of which a run without repeats had cache hits."""
    media, table = found.manifest.media, found.table
    if media.get("reuse_asked") != 0:
        return
    for name, code in classes_in_order(table):
        sent = (media.get("classes") or {}).get(name)
        if isinstance(sent, dict) and sent.get("kind") == "text":
            continue  # text alone: its one prompt always repeats
        mine = found.measures.ok & (table.media_class == code)
        cached = float(np.nansum(table.counts["cached_tokens"][mine]))
        prompt = float(np.nansum(table.counts["prompt_tokens"][mine]))
        if cached > CACHED_SHARE * prompt > 0:
            yield f"{cached / prompt:.0%} of {name}"


def _of_server(found: Findings) -> Iterator[Trap]:
    unseen = unseen_sentence(found.server_series)
    if unseen:
        yield Trap(
            "unseen_queue",
            unseen,
            "Do not scale or alert by these gauges: they count what has reached the engine, and"
            " requests wait in front of it. The stages say where.",
        )
    if found.profile is not None:
        stopped = found.profile["native"]
        yield Trap(
            "profiled",
            f"py-spy {'stopped' if stopped else 'read'} the server's processes"
            f" {found.profile['rate_hz']} times a second during the load.",
            "Do not quote these latencies: run again without the profile."
            if stopped
            else "It was not stopped for that. For a latency to quote, run again without.",
        )
    for load in idle_pools(found.loads):
        yield Trap(
            "pool_idle",
            f"{load.title}: {load.configured_width} workers were given, at most"
            f" {load.observed_width} ever worked at once, while requests waited.",
            "The setting has no effect on this server: something else admits them one by one.",
        )
    yield from _of_loop(found)
    if any(process.settings.get("device") == "CPU" for process in found.processes):
        yield Trap(
            "engine_on_cpu",
            "The server's model ran on its CPU: the GPU phase is the model's work there.",
            "Its times are measured, and are no accelerator's.",
        )
    words = processor_words.warnings(
        found.loads,
        found.joined,
        found.processes,
        cores=found.manifest.machine.get("cores"),
        reuse_asked=found.manifest.media.get("reuse_asked"),
    )
    yield from (Trap(*warning) for warning in words)


def _of_loop(found: Findings) -> Iterator[Trap]:
    loop = loop_load(found.loads)
    if loop is not None and (
        loop.service_ms >= BLOCKS_ALWAYS_MS or found.loop_wait_ms >= BLOCKS_SOMEBODY_MS
    ):
        yield Trap(
            "blocks_loop",
            f"A request computes for {loop.service_ms:.0f} ms on the server's event loop"
            f" ({loop.parts}). Meanwhile that process reads no request and sends no token;"
            f" requests waited {found.loop_wait_ms:.0f} ms for it at the mean.",
            "Hand it to a thread or a process of its own, and await it.",
        )
    if found.joined is None:
        return
    unknown = [one for one in culprits(found.joined) if one.total_ns >= HELD_UP_WORTH_TELLING_NS]
    for one in unknown[:3]:
        mean_ms = one.total_ns / one.times / 1e6
        by = f"by {one.where}" if one.where else "while its thread had no core, or not the GIL"
        yield Trap(
            "loop_blocked",
            f"The server's event loop was held up {one.times} times, for {mean_ms:.0f} ms at the"
            f" mean, {by}. Meanwhile that process reads no request and sends no token.",
            "Hand it to a thread or a process of its own, and await it."
            if one.where
            else "Give the server more cores, or fewer threads that compute in that process.",
        )


def _of_files(found: Findings) -> Iterator[Trap]:
    lost = sum(process.lost for process in found.processes)
    if lost:
        yield Trap(
            "spans_lost",
            f"Spans that the hook lost: {lost}. Its buffer was full, or its disk failed.",
            "Stage figures miss that work. Give the hook a faster disk or a larger buffer.",
        )
    if found.damaged:
        yield Trap(
            "damaged_lines",
            f"Lines of the run's files that could not be read and were left out: {found.damaged}.",
            "A killed process leaves one torn line a file; more means a damaged disk or copy.",
        )
    joined = found.joined
    if joined is None:
        if found.manifest.traced:
            yield Trap(
                "no_spans",
                "The server was to be traced, but no span arrived"
                f"{' from ' + found.manifest.span_source if found.manifest.span_source else ''}.",
                "Its stages are unknown. A server is traced if it is in Python and on this machine;"
                " `mmload trace` starts one.",
            )
        return
    unjoined = int(np.count_nonzero(found.measures.sent & ~joined.has_spans))
    if unjoined:
        yield Trap(
            "unjoined",
            f"{unjoined} of {np.count_nonzero(found.measures.sent)} sent requests have no spans.",
            "Their time in the server is unattributed: they did not reach the traced process, or"
            " the server gave them other ids.",
        )
    if any(not offset.consistent for offset in joined.offsets):
        yield Trap(
            "clock",
            "No clock offset fits the spans of another host to all requests.",
            "Do not read that host's stages to better than"
            f" {_worst_misfit_ms(joined):.1f} ms: its clock was stepped during the run.",
        )


def _worst_misfit_ms(joined: Joined) -> float:
    return max((o.lo_ns - o.hi_ns) / 1e6 for o in joined.offsets)


def as_data(found: list[Trap]) -> list[dict[str, Any]]:
    return [trap._asdict() for trap in found]
