"""What the embedded server says of itself at /metrics, in Prometheus' text format.

`mmload_requests_in_stage` shows every queue, the ones in front of the media and renderer pools too.
`mmload_num_requests_running` and `_waiting` count what a model server's own gauges usually count:
the engine only, which is why they can stay at 0 while requests pile up elsewhere. Counts are exact
and may be raised from any thread; nothing here reads a clock but the one it was given.
"""

import contextlib
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from mmload.clock import NS_PER_S, Clock
from mmload.hook import spans

BUCKETS_S: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0),
)


class Histogram:
    """Cumulative buckets as Prometheus has them. Not locked: `Metrics` holds the lock."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_ns = 0

    def observe(self, ns: int) -> None:
        self.counts[bisect_left(BUCKETS_S, ns / NS_PER_S)] += 1
        self.sum_ns += ns

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        """`labels`: "" or `stage="processor"`."""
        separator = "," if labels else ""
        total = 0
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}{separator}le="{bound}"}} {total}'
        suffix = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{suffix} {self.sum_ns / NS_PER_S}"
        yield f"{name}_count{suffix} {total}"


class Presence:
    """A request in a stage, until `leave`, which may be called twice and from any thread."""

    def __init__(self, metrics: "Metrics", stage: str) -> None:
        self._metrics = metrics
        self.stage = stage
        self.entered_ns = metrics.clock.now_ns()
        self.present = True

    def leave(self, *, timed: bool = True) -> None:
        """`timed`: the time since it was entered is the time in the stage; else see `took`."""
        self._metrics.leave(self, timed)


class Metrics:
    """Gauges, counters and histograms of one server."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._present: dict[str, int] = {}
        self._stage_time: dict[str, Histogram] = {}
        self._requests: dict[int, int] = {}
        self._tokens = {"prompt": 0, "generation": 0}
        self._counted: dict[tuple[str, str], Counter[str]] = {}
        self._ttft = Histogram()
        self._e2e = Histogram()

    def enter(self, stage: str) -> Presence:
        with self._lock:
            self._present[stage] = self._present.get(stage, 0) + 1
        return Presence(self, stage)

    def leave(self, presence: Presence, timed: bool) -> None:
        now_ns = self.clock.now_ns()
        with self._lock:
            if not presence.present:
                return
            presence.present = False
            self._present[presence.stage] -= 1
        if timed:
            self.took(presence.stage, now_ns - presence.entered_ns)

    def took(self, stage: str, ns: int) -> None:
        """A time in a stage, for its histogram."""
        with self._lock:
            self._stage_time.setdefault(stage, Histogram()).observe(ns)

    @contextlib.contextmanager
    def stage(
        self, name: str, *, measure_thread: bool = False, **facts: Any
    ) -> Iterator[spans.Seen]:
        """A block of a request's work: a span of the hook, and a presence here."""
        presence = self.enter(name)
        try:
            with spans.span(name, measure_thread=measure_thread, **facts) as seen:
                yield seen
        finally:
            presence.leave()

    def in_stage(self, stage: str) -> int:
        return self._present.get(stage, 0)

    def first_token(self, ns: int) -> None:
        with self._lock:
            self._ttft.observe(ns)

    def request_ended(self, status: int, ns: int) -> None:
        with self._lock:
            self._requests[status] = self._requests.get(status, 0) + 1
            self._e2e.observe(ns)

    def answered(self, prompt_tokens: int, output_tokens: int) -> None:
        with self._lock:
            self._tokens["prompt"] += prompt_tokens
            self._tokens["generation"] += output_tokens

    def count(self, name: str, words: str, labels: str = "") -> None:
        """One more of something that only some servers have: `mmload_NAME_total`."""
        with self._lock:
            self._counted.setdefault((name, words), Counter())[labels] += 1

    def text(self) -> str:
        """The exposition, one scrape."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("mmload_requests_in_stage", "gauge", "Requests in each stage now.")
        for stage, count in sorted(self._present.items()):
            yield f'mmload_requests_in_stage{{stage="{stage}"}} {count}'
        running = sum(self._present.get(stage, 0) for stage in ("encoder", "prefill", "decode"))
        yield from _head("mmload_num_requests_running", "gauge", "Requests on the accelerator.")
        yield f"mmload_num_requests_running {running}"
        yield from _head("mmload_num_requests_waiting", "gauge", "Requests in the engine's queue.")
        yield f"mmload_num_requests_waiting {self._present.get('engine_wait', 0)}"
        yield from _head("mmload_requests_total", "counter", "Requests ended, by HTTP status.")
        for status, count in sorted(self._requests.items()):
            yield f'mmload_requests_total{{status="{status}"}} {count}'
        for kind, count in self._tokens.items():
            yield from _head(
                f"mmload_{kind}_tokens_total", "counter", f"{kind} tokens.".capitalize()
            )
            yield f"mmload_{kind}_tokens_total {count}"
        for (name, words), counts in sorted(self._counted.items()):
            yield from _head(f"mmload_{name}_total", "counter", words)
            for labels, count in sorted(counts.items()):
                yield f"mmload_{name}_total{f'{{{labels}}}' if labels else ''} {count}"
        yield from _head("mmload_spans_lost_total", "counter", "Spans that the hook lost.")
        yield f"mmload_spans_lost_total {spans.lost()}"
        yield from _head("mmload_stage_seconds", "histogram", "Time in each stage.")
        for stage, histogram in sorted(self._stage_time.items()):
            yield from histogram.lines("mmload_stage_seconds", f'stage="{stage}"')
        yield from _head(
            "mmload_time_to_first_token_seconds", "histogram", "Headers parsed to first token."
        )
        yield from self._ttft.lines("mmload_time_to_first_token_seconds")
        yield from _head("mmload_e2e_request_seconds", "histogram", "Headers parsed to the end.")
        yield from self._e2e.lines("mmload_e2e_request_seconds")


def _head(name: str, kind: str, words: str) -> tuple[str, str]:
    return f"# HELP {name} {words}", f"# TYPE {name} {kind}"
