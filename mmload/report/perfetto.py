"""A run on one time line: Chrome's Trace Event Format, as JSON for https://ui.perfetto.dev.

In: records, spans, samples and the run's manifest, read once. Out: one JSON object. Times are
microseconds since the run's origin, exact to the nanosecond.

- The client is a process, and so is every process of the server that wrote spans.
- Slices of one thread must nest, but requests overlap: each request, and each span that overlaps
  another of its thread, goes to the first *lane* that is free. Lanes are the threads of the trace.
- A request is a slice with its parts (lag, send, wait, stream) inside; an arrow leads from its send
  to its first span on the server.
- The clock of another host is laid on the client's by the middle of what all exchanges allow.
- Counters: requests in flight as the client knows, what the server's gauges say, its processes.

Format: "Trace Event Format", by the catapult project. Perfetto's importer wants slices that nest.
"""

import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, TextIO

import numpy as np

from mmload.analysis.join import IdIndex
from mmload.analysis.offset import estimate
from mmload.analysis.queues import Steps
from mmload.hook.stages import STAGE_BY_NAME
from mmload.records import WARM_UP, Outcome, Record, Sample, ServerProcess, Span
from mmload.report.lanes import Slice, nesting
from mmload.rundir import RunManifest
from mmload.watch.names import METRICS

Event = dict[str, Any]
CLIENT: Final = "client (mmload)"
_GAUGES: Final = {metric.key for metric in METRICS if metric.kind == "gauge"}


def write(
    manifest: RunManifest,
    records: Iterable[Record],
    spans: Iterable[Span],
    samples: Iterable[Sample],
    out: TextIO,
) -> int:
    """Writes the trace; returns the number of its events."""
    count = 0
    out.write('{"displayTimeUnit":"ms","otherData":')
    json.dump({"run": manifest.name, "started_at": manifest.started_at}, out)
    out.write(',"traceEvents":[')
    for event in events(manifest, records, spans, samples):
        out.write(",\n" if count else "\n")
        out.write(json.dumps(event, allow_nan=False, separators=(",", ":")))
        count += 1
    out.write("\n]}\n")
    return count


def events(
    manifest: RunManifest,
    records: Iterable[Record],
    spans: Iterable[Span],
    samples: Iterable[Sample],
) -> Iterator[Event]:
    """All events, metadata first."""
    sent = sorted((r for r in records if r.sent_ns is not None), key=lambda r: r.intended_ns)
    index = IdIndex(r.request_id for r in sent)
    found = [
        (span, index.find(span.request_id))
        for span in spans
        if WARM_UP not in span.request_id and span.end_ns >= span.start_ns
    ]
    zero_ns = _zeros(found, sent, getattr(spans, "processes", []), manifest)
    by_thread: dict[tuple[int, str], list[tuple[Slice, int]]] = defaultdict(list)
    for span, row in found:
        one = _of_span(span, zero_ns.get(span.pid, manifest.origin_ns))
        by_thread[span.pid, span.thread].append((one, row))
    client = 1 + max((pid for pid, _ in by_thread), default=0)
    yield from _process(client, CLIENT, 0)
    arrows: dict[int, tuple[int, int]] = {}  # row -> (time, lane) of its send
    yield from _requests(client, sent, arrows)
    yield from _backlog(client, sent)
    for number, pid in enumerate(sorted({pid for pid, _ in by_thread}), 1):
        yield from _process(pid, f"server, process {pid}", number)
    yield from _spans(by_thread, client, arrows)
    server = client + 1
    yield from _counters(server, samples, manifest.origin_ns)


def _process(pid: int, name: str, order: int) -> Iterator[Event]:
    yield _metadata(pid, 0, "process_name", {"name": name})
    yield _metadata(pid, 0, "process_sort_index", {"sort_index": order})


def _thread(pid: int, tid: int, name: str) -> Iterator[Event]:
    yield _metadata(pid, tid, "thread_name", {"name": name})
    yield _metadata(pid, tid, "thread_sort_index", {"sort_index": tid})


def _metadata(pid: int, tid: int, name: str, args: dict[str, Any]) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}


# -- the client --------------------------------------------------------------------------------


def _requests(
    client: int, sent: list[Record], arrows: dict[int, tuple[int, int]]
) -> Iterator[Event]:
    """Each request in the first lane that is free; where lanes are named, there were requests."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []  # (end, lane)
    lanes = 0
    for row, record in enumerate(sent):
        start_ns, end_ns = record.intended_ns, _end_ns(record)
        while busy and busy[0][0] <= start_ns:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lanes += 1
            lane = lanes
            yield from _thread(client, lane, f"requests, lane {lane}")
        heapq.heappush(busy, (end_ns, lane))
        whole = Slice(start_ns, end_ns, record.media_class, _of_record(record))
        yield _complete(client, lane, whole, "request")
        for part in _parts(record, end_ns):
            yield _complete(client, lane, part, "client")
        assert record.sent_ns is not None
        arrows[row] = (record.sent_ns, lane)


def _end_ns(record: Record) -> int:
    """When the client saw the end, or the last that it saw at all."""
    ends = (record.closed_ns, record.last_output_ns, record.headers_ns, record.sent_ns)
    return max(record.intended_ns, *(end for end in ends if end is not None))


def _of_record(record: Record) -> dict[str, Any]:
    made = {"request_id": record.request_id, "index": record.index, "outcome": str(record.outcome)}
    known = {
        "status": record.status,
        "prompt_tokens": record.prompt_tokens,
        "output_tokens": record.output_tokens,
        "message": record.message or None,
    }
    return made | {key: value for key, value in known.items() if value is not None}


def _parts(record: Record, end_ns: int) -> Iterator[Slice]:
    """Lag, send, wait, stream: one after the other, as far as the request came."""
    marks = (
        ("lag", record.intended_ns, record.sent_ns),
        ("send", record.sent_ns, record.send_end_ns),
        ("wait", record.send_end_ns, record.first_output_ns),
        ("stream", record.first_output_ns, end_ns),
    )
    at_ns = record.intended_ns
    for name, start_ns, stop_ns in marks:
        if start_ns is None:
            return
        start_ns = max(start_ns, at_ns)  # an answer may begin before the body is all sent
        at_ns = max(start_ns, end_ns if stop_ns is None else min(stop_ns, end_ns))
        yield Slice(start_ns, at_ns, name, {})
        if stop_ns is None:
            return


def _backlog(client: int, sent: list[Record]) -> Iterator[Event]:
    starts = np.array([r.intended_ns for r in sent], np.float64)
    ends = np.array([_end_ns(r) for r in sent], np.float64)
    steps = Steps.of(starts, ends)
    for at_ns, level in zip(steps.time_ns, steps.level, strict=True):
        yield _counter(client, int(at_ns), "in flight", {"requests": int(level)})


# -- the server --------------------------------------------------------------------------------


def _zeros(
    found: list[tuple[Span, int]],
    sent: list[Record],
    processes: list[ServerProcess],
    manifest: RunManifest,
) -> dict[int, int]:
    """pid -> the run's origin on the clock of its host, for processes of other hosts."""
    here = str(manifest.machine.get("boot_id", ""))
    hosts: dict[str, set[int]] = defaultdict(set)
    for process in processes:
        if here and process.boot_id and process.boot_id != here:
            hosts[process.boot_id].add(process.pid)
    zeros: dict[int, int] = {}
    for pids in hosts.values():
        seen: dict[int, list[Span]] = defaultdict(list)
        for span, row in found:
            if span.pid in pids and row >= 0 and sent[row].outcome is Outcome.ok:
                seen[row].append(span)
        rows = [row for row in seen if sent[row].closed_ns is not None]
        offset = estimate(
            np.array([sent[row].sent_ns for row in rows], np.float64),
            np.array([sent[row].closed_ns for row in rows], np.float64),
            np.array([min(one.start_ns for one in seen[row]) for row in rows], np.float64),
            np.array([max(one.end_ns for one in seen[row]) for row in rows], np.float64),
        )
        if offset is not None:
            zeros |= dict.fromkeys(pids, round((offset.lo_ns + offset.hi_ns) / 2))
    return zeros


def _of_span(span: Span, origin_ns: int) -> Slice:
    stage = STAGE_BY_NAME.get(span.stage)
    args = {"request_id": span.request_id, "stage": span.stage, **span.facts}
    name = stage.title if stage else span.stage
    return Slice(span.start_ns - origin_ns, span.end_ns - origin_ns, name, args)


def _spans(
    by_thread: dict[tuple[int, str], list[tuple[Slice, int]]],
    client: int,
    arrows: dict[int, tuple[int, int]],
) -> Iterator[Event]:
    tid: dict[int, int] = defaultdict(int)
    first: dict[int, tuple[int, int, int]] = {}  # row -> (time, pid, tid)
    for (pid, name), found in sorted(by_thread.items(), key=lambda item: item[0]):
        for number, lane in enumerate(nesting(found), 1):
            tid[pid] += 1
            title = name or "thread"
            yield from _thread(pid, tid[pid], title if number == 1 else f"{title}, lane {number}")
            for one, row in lane:
                yield _complete(pid, tid[pid], one, "server")
                if row >= 0 and (row not in first or one.start_ns < first[row][0]):
                    first[row] = (one.start_ns, pid, tid[pid])
    for row, (at_ns, pid, thread) in first.items():
        sent_ns, lane_of_request = arrows[row]
        ends: Event = {"cat": "request", "name": "to the server", "id": row}
        if at_ns >= sent_ns:  # an arrow back in time would be a clock's fault, not the request's
            yield {"ph": "s", "ts": sent_ns / 1000, "pid": client, "tid": lane_of_request, **ends}
            yield {"ph": "f", "bp": "e", "ts": at_ns / 1000, "pid": pid, "tid": thread, **ends}


def _counters(server: int, samples: Iterable[Sample], origin_ns: int) -> Iterator[Event]:
    named = False
    for sample in samples:
        at_ns = sample.at_ns - origin_ns
        for key, value in sample.values.items():
            base, _, label = key.partition(".")
            if sample.source == "server" and base not in _GAUGES:
                continue
            if not named:
                yield from _process(server, "server, seen from outside", 1)
                named = True
            title = f"{sample.source}: {base}"
            yield _counter(server, at_ns, title, {label or base: value})


def _complete(pid: int, tid: int, one: Slice, category: str) -> Event:
    return {
        "ph": "X",
        "name": one.name,
        "cat": category,
        "ts": one.start_ns / 1000,
        "dur": (one.end_ns - one.start_ns) / 1000,
        "pid": pid,
        "tid": tid,
        "args": one.args,
    }


def _counter(pid: int, at_ns: int, name: str, values: dict[str, float]) -> Event:
    return {"ph": "C", "name": name, "ts": at_ns / 1000, "pid": pid, "tid": 0, "args": values}
