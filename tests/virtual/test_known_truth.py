"""A server whose queue is known beforehand, loaded by the real generator on virtual time.

One renderer worker, 300 ms a request, an accelerator that costs nothing, 5 requests a second for
30 s. So request k starts its processor at 300k ms, answers at 300(k+1) ms having been sent at
200k ms, and the backlog grows by 5 - 1/0.3 = 1.667 requests a second.
"""

import base64
from pathlib import Path
from typing import Any

import cv2
import msgspec
import numpy as np
import pytest

from mmload.hook import spans
from mmload.load.generator import Generator
from mmload.load.limits import Limits
from mmload.load.payloads import Piece
from mmload.records import Outcome, Record, Span
from mmload.rundir import SpanLines
from mmload.server.metrics import Metrics
from mmload.server.pipeline import Pipeline
from mmload.server.settings import ServerSettings
from tests.virtual.embedded import EmbeddedTransport
from tests.virtual.loop import VirtualClock, run_virtual
from tests.virtual.scripted import ScriptedJob

MS = 1_000_000
S = 1_000_000_000
ARRIVALS = 150
NO_COST: dict[str, Any] = {
    "encoder_fixed_ms": 0.0,
    "encoder_ms_per_1k_patches": 0.0,
    "prefill_fixed_ms": 0.0,
    "prefill_ms_per_1k_tokens": 0.0,
    "decode_step_ms": 0.0,
    "decode_ms_per_sequence": 0.0,
}


def image_body(settings: ServerSettings, side: int = 64) -> bytes:
    picture = np.full((side, side, 3), 127, np.uint8)
    encoded = base64.b64encode(cv2.imencode(".jpg", picture)[1].tobytes()).decode()
    url = {"url": f"data:image/jpeg;base64,{encoded}"}
    content = [{"type": "image_url", "image_url": url}, {"type": "text", "text": "What is it?"}]
    return msgspec.json.encode(
        {
            "model": settings.model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": 2,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )


class ImageJob(ScriptedJob):
    """Every request is the same small image; the head is the request id."""

    def __init__(self, intended_ns: list[int], body: bytes) -> None:
        super().__init__(intended_ns)
        self._body = body

    def request(self, i: int, record: Record) -> tuple[bytes, list[Piece]]:
        return record.request_id.encode(), [self._body]


def load(settings: ServerSettings, monkeypatch: pytest.MonkeyPatch, side: int = 64) -> list[Record]:
    async def body(clock: VirtualClock) -> list[Record]:
        monkeypatch.setattr(spans, "now_ns", clock.now_ns)
        records: list[Record] = []
        intended_ns = [k * 200 * MS for k in range(ARRIVALS)]
        async with Pipeline(settings, clock, Metrics(clock)) as pipeline:
            transport = EmbeddedTransport(pipeline, settings, clock)
            job = ImageJob(intended_ns, image_body(settings, side))
            limits = Limits(timeout_ns=1_000 * S)
            await Generator(job, transport, clock, 0, limits, records.append).run()
        return sorted(records, key=lambda record: record.index)

    return run_virtual(body)


def test_the_queue_in_front_of_the_processor_grows_as_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path))
    settings = ServerSettings(processor_fixed_ms=300, **NO_COST)
    spans.install("server", settings.described())
    try:
        records = load(settings, monkeypatch)
    finally:
        spans.shutdown()

    assert [r.outcome for r in records] == [Outcome.ok] * ARRIVALS
    assert [r.first_output_ns for r in records] == [300 * MS * (k + 1) for k in range(ARRIVALS)]
    # backlog at 30 s: 150 sent, 100 answered
    answered = sum(r.first_output_ns is not None and r.first_output_ns <= 30 * S for r in records)
    assert (ARRIVALS - answered) / 30 == pytest.approx(5 / 3)

    by_stage: dict[str, dict[str, Span]] = {}
    for span in SpanLines(list(tmp_path.glob("*.jsonl"))):
        by_stage.setdefault(span.stage, {})[span.request_id] = span
    for k in range(ARRIVALS):
        wait, work = by_stage["renderer_wait"][f"r-{k}"], by_stage["processor"][f"r-{k}"]
        assert (wait.start_ns, wait.end_ns) == (200 * MS * k, 300 * MS * k)
        assert (work.start_ns, work.end_ns) == (300 * MS * k, 300 * MS * (k + 1))
        assert by_stage["handoff"][f"r-{k}"].end_ns == work.end_ns
        assert work.facts["pool_width"] == 1 and work.facts["simulated"] is True


def test_two_workers_keep_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers can do 6.67 a second: every request takes its 300 ms and no more."""
    records = load(
        ServerSettings(processor_fixed_ms=300, renderer_workers=2, **NO_COST), monkeypatch
    )
    waits = {r.first_output_ns - r.intended_ns for r in records if r.first_output_ns is not None}
    assert waits == {300 * MS}


def test_the_accelerators_time_comes_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 ms of processor, 20 of encoder, 10 of prefill, then one step of 8 for the second token;
    the next request's encoder starts 200 ms later, when all that is over."""
    settings = ServerSettings(
        processor_fixed_ms=100,
        encoder_fixed_ms=20,
        encoder_ms_per_1k_patches=0,
        prefill_fixed_ms=10,
        prefill_ms_per_1k_tokens=0,
        decode_step_ms=7,
        decode_ms_per_sequence=1,
    )
    for record in load(settings, monkeypatch):
        assert record.first_output_ns == record.intended_ns + 130 * MS
        assert record.last_output_ns == record.intended_ns + 138 * MS
        assert (record.output_tokens, record.finish_reason) == (2, "length")
        # 64x64 is enlarged to 256x256: 16 x 16 patches, a token for every 4
        assert record.media_tokens == 64


def test_too_much_waiting_media_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture of 700x700 is 1.4 MiB decoded, so with a bound of 2 MiB a request that finds two
    inside is refused. 301 ms of service keep ends and arrivals apart."""
    settings = ServerSettings(processor_fixed_ms=301, max_waiting_media_mib=2, **NO_COST)
    records = load(settings, monkeypatch, side=700)
    # the first leave at 301, 602, 903, so the one at 600 finds two; then 1204, 1505: that at 1200
    statuses = [200, 200, 200, 503, 200, 200, 503]
    assert [record.status for record in records[:7]] == statuses
    ends_ns: list[int] = []
    for record in records:
        inside = [end_ns for end_ns in ends_ns if end_ns > record.intended_ns]
        if len(inside) < 2:
            ends_ns.append(max([record.intended_ns, *inside]) + 301 * MS)
            assert record.first_output_ns == ends_ns[-1]
        else:
            assert (record.outcome, record.status) == (Outcome.http_error, 503)
            assert "overloaded: 2 MiB of decoded media are waiting" in record.message
