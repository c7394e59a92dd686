"""Stages that take turns on one device: their work adds up, and the capacity follows by hand."""

import json
from typing import Any

import pytest

from mmload.analysis.summary import summarise
from mmload.records import Record, RecordTable, Span
from tests.unit.analysis_samples import MS, ORIGIN_NS, manifest, record

REQUESTS = 200


def engine_server(
    every_ms: int,
    *,
    decode_ms: int = 20,
    wait_ms: int = 5,
    overlap_ms: int = 0,
    prefill_pid: int = 1,
    engines: int = 1,
    batched_prefill: bool = False,
    text_between: int = 0,
) -> dict[str, Any]:
    """The summary of an engine that gives each request the device for 40 ms (encoder) and 30 ms
    (prefill); decode steps follow beside the next request's."""
    records: list[Record] = []
    spans: list[Span] = []
    free = [0] * engines
    for i in range(REQUESTS):
        arrives = i * every_ms * MS
        at = min(range(engines), key=lambda one: free[one])
        starts = max(arrives + wait_ms * MS, free[at])
        seen = i % (1 + text_between) == 0  # else a text without media, which no encoder sees
        encoded = starts + 40 * MS * seen
        filled = encoded + 30 * MS
        free[at] = filled - overlap_ms * MS
        ends = filled + decode_ms * MS
        records.append(record(i, arrives, ends))

        def add(stage: str, start: int, end: int, pid: int, **facts: Any) -> None:
            name = records[-1].request_id
            spans.append(Span(name, stage, ORIGIN_NS + start, ORIGIN_NS + end, pid, facts=facts))

        add("engine_wait", arrives, starts, 1 + at)
        if seen:
            add("encoder", starts, encoded, 1 + at)
        facts = {"batched": True} if batched_prefill else {}
        add("prefill", encoded, filled, prefill_pid + at, **facts)
        add("decode", filled, ends, 1 + at)
    run = manifest(
        planned=REQUESTS,
        schedule_s=REQUESTS * every_ms / 1000,
        asked_qps=1000 / every_ms,
        traced=True,
    )
    summary = summarise(run, None, RecordTable.of(records), spans, []).summary
    whole: dict[str, Any] = json.loads(json.dumps(summary, allow_nan=False))  # as it is written
    return whole


def test_what_requests_have_the_device_for_adds_up() -> None:
    """10/s of 70 ms is 0.7, and 1000 / 70 = 14.29/s at most; with 20 ms of decoding each it has
    work for 90 ms in 100, so 10 / 0.9 = 11.1/s at least."""
    summary = engine_server(100)
    blamed = summary["bottleneck"]
    assert blamed["stage"] == "encoder" and blamed["width"] == 1
    assert blamed["title"] == "engine (vision encoder, prefill, decode)"
    assert blamed["utilisation"] == pytest.approx(0.7)
    assert blamed["capacity_qps"] == pytest.approx(1000 / 70, rel=1e-6)
    assert blamed["capacity_least_qps"] == pytest.approx(10 / 0.9, rel=0.01)
    assert blamed["sentence"].startswith(
        "The engine is the bottleneck: 10.0 requests/s offered, vision encoder 40 ms and prefill 30"
        " ms each, one request at a time, is utilisation 0.70; with decode it has work 90% of the"
        " time. It can carry 11.11 to 14.29 requests/s."
    )


def test_far_from_the_limit_it_is_the_busiest() -> None:
    sentence = engine_server(200)["bottleneck"]["sentence"]
    assert sentence.startswith(
        "No stage is near its limit. The busiest is the engine: 5.0 requests"
    )
    assert "is utilisation 0.35; with decode it has work 45% of the time. It can carry" in sentence


def test_an_overload_is_served_at_the_capacity() -> None:
    """20/s arrive: served are 1000 / 70 = 14.29/s, and the device is never idle."""
    summary = engine_server(50)
    assert summary["queue"]["verdict"] == "growing"
    blamed = summary["bottleneck"]
    assert blamed["sentence"].startswith("The engine is the bottleneck: 20.0 requests/s offered")
    assert blamed["utilisation"] == pytest.approx(20 / (1000 / 70))
    assert blamed["capacity_least_qps"] == pytest.approx(1000 / 70, rel=0.02)
    assert blamed["capacity_least_qps"] <= blamed["capacity_qps"]


def test_batched_stages_share_the_device_and_say_nothing_of_its_limit() -> None:
    blamed = engine_server(100, batched_prefill=True)["bottleneck"]
    assert blamed["title"] == "engine (vision encoder, prefill, decode)"
    assert blamed["capacity_qps"] == pytest.approx(25)  # the encoder's 40 ms alone
    assert blamed["capacity_least_qps"] == pytest.approx(10 / 0.9, rel=0.01)
    said = "vision encoder 40 ms each, one request at a time, is utilisation 0.40; with prefill and"
    assert said in blamed["sentence"]


def test_several_engines_have_a_device_each() -> None:
    """Two of them: 20/s of 70 ms on 2 is 0.7. When both have work is not told apart from one."""
    blamed = engine_server(50, engines=2)["bottleneck"]
    assert blamed["width"] == 2 and blamed["capacity_least_qps"] is None
    assert blamed["utilisation"] == pytest.approx(0.7)
    assert (
        "on 2 engines, is utilisation 0.70. It can carry at most 28.57 requests/s."
        in (blamed["sentence"])
    )


@pytest.mark.parametrize("apart", [{"overlap_ms": 20}, {"prefill_pid": 7}])
def test_stages_that_overlap_or_live_apart_have_devices_of_their_own(apart: Any) -> None:
    """Without room between requests, so that an overlap shows: 80 ms apart, 70 and 5 to wait."""
    blamed = engine_server(60 if "overlap_ms" in apart else 100, **apart)["bottleneck"]
    assert "title" not in blamed and "engine" not in blamed["sentence"]


def test_where_nothing_waited_it_may_be_able_to_do_more() -> None:
    sentence = engine_server(200, wait_ms=0)["bottleneck"]["sentence"]
    assert "nothing waited for it, so it may be able to do more." in sentence


def test_requests_that_skip_a_stage_are_served_too() -> None:
    """Every second is a text: 30 ms of the device, or 50 ms of 100 with its decoding; with an image
    90. At 10/s the device has work for 70 % of the time."""
    blamed = engine_server(100, batched_prefill=True, text_between=1)["bottleneck"]
    assert blamed["capacity_qps"] == pytest.approx(50)  # 20 ms of encoder a request at the mean
    assert blamed["capacity_least_qps"] == pytest.approx(10 / 0.7, rel=0.01)


def test_it_carries_what_it_has_carried_however_long_the_answers() -> None:
    """5/s, each decoded for a second: the last five are inside when the arrivals end."""
    blamed = engine_server(200, decode_ms=1000)["bottleneck"]
    assert blamed["capacity_least_qps"] == pytest.approx(5.0, rel=0.001)
