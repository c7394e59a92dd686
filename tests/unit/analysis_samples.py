"""Runs whose every figure is known, made by arithmetic: deterministic queues without a clock."""

import re
from pathlib import Path
from typing import Any

from mmload.records import Outcome, Record, RecordTable, ServerProcess, Span
from mmload.rundir import RunEnd, RunManifest

MS = 1_000_000
S = 1_000_000_000
ORIGIN_NS = 7_000 * S  # the host's monotonic clock when the run began


CONTRACT = Path(__file__).parents[2] / "docs" / "summary.md"


def documented_keys(part: str) -> list[str]:
    """The keys that the table under the heading `part` of docs/summary.md names."""
    text = CONTRACT.read_text(encoding="utf-8")
    _, _, after = text.partition(f"# {part}\n")
    section = re.split(r"^#", after, maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [key for row in rows for key in re.findall(r"`(\w+)`", row)]


def manifest(**changed: Any) -> RunManifest:
    values: dict[str, Any] = {
        "name": "sample",
        "digest": "0" * 64,
        "started_at": "2026-01-01T00:00:00Z",
        "origin_ns": ORIGIN_NS,
        "target": "http://127.0.0.1:8000",
        "machine": {"cores": 2},
    }
    return RunManifest(**values | changed)


def record(index: int, intended_ns: int, done_ns: int, **changed: Any) -> Record:
    """An ok record that was sent on time and answered in one piece."""
    values: dict[str, Any] = {
        "index": index,
        "request_id": f"r-{index:06d}",
        "media_class": "15 frames 854x480",
        "payload": 0,
        "intended_ns": intended_ns,
        "sent_ns": intended_ns,
        "send_end_ns": intended_ns,
        "headers_ns": done_ns,
        "first_byte_ns": done_ns,
        "first_output_ns": done_ns,
        "first_answer_ns": done_ns,
        "last_output_ns": done_ns,
        "closed_ns": done_ns,
        "chunk_ns": [done_ns],
        "outcome": Outcome.ok,
        "status": 200,
    }
    return Record(**values | changed)


def span(request_id: str, stage: str, start_ns: int, end_ns: int, **facts: Any) -> Span:
    """A span in the run's time, stamped on the host's clock."""
    return Span(request_id, stage, ORIGIN_NS + start_ns, ORIGIN_NS + end_ns, pid=1, facts=facts)


class DeterministicQueue:
    """Requests every 200 ms (5 a second), each 300 ms in the processor, on `workers` workers."""

    def __init__(self, workers: int = 1, requests: int = 150) -> None:
        self.records: list[Record] = []
        self.spans: list[Span] = []
        free = [0] * workers
        for i in range(requests):
            arrives = i * 200 * MS
            free.sort()
            starts = max(arrives, free[0])
            free[0] = ends = starts + 300 * MS
            one = record(i, arrives, ends)
            self.records.append(one)
            self.spans += [
                span(one.request_id, "processor_wait", arrives, starts, pool_width=workers),
                span(one.request_id, "processor", starts, ends, pool_width=workers),
            ]
        self.table = RecordTable.of(self.records)
        self.processes = [ServerProcess(pid=1)]
        self.end = RunEnd(ended_ns=max(free))
        self.manifest = manifest(
            planned=requests, asked_qps=5.0, schedule_s=requests / 5, traced=True
        )
