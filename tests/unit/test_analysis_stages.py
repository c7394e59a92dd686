"""Widths, utilisation and capacity of stages, and the one sentence about the bottleneck."""

from typing import Any

import numpy as np
import pytest

from mmload.analysis.bottleneck import bottleneck, idle_pools
from mmload.analysis.growth import window_of
from mmload.analysis.join import join
from mmload.analysis.phases import split
from mmload.analysis.stages import StageLoad, client_stays, server_stays, stage_loads
from mmload.records import Outcome, Record, RecordTable, Span
from tests.unit.analysis_samples import MS, ORIGIN_NS, DeterministicQueue, S, record, span


def loads_of(records: list[Record], spans: list[Span], qps: float = 5.0) -> dict[str, StageLoad]:
    table = RecordTable.of(records)
    joined = join(table, spans, [], ORIGIN_NS)
    ok = np.flatnonzero(table.is_outcome(Outcome.ok))
    sent = np.ones(len(table), np.bool_)
    window = window_of(table.times["intended_ns"], len(records) / qps * S)
    stays = client_stays(table, sent, joined) + server_stays(joined)
    parts = split(ok, table.times, joined)
    loads = stage_loads(stays, parts, joined.has_spans, qps, window)
    return {load.name: load for load in loads}


def every_200_ms(n: int, **changed: Any) -> list[Record]:
    return [record(i, i * 200 * MS, i * 200 * MS + 500 * MS, **changed) for i in range(n)]


def test_one_worker_of_300_ms_at_5_a_second() -> None:
    queue = DeterministicQueue(workers=1)
    loads = loads_of(queue.records, queue.spans)
    assert list(loads) == ["schedule_lag", "send", "accept_wait", "processor_wait", "processor"]
    work, wait = loads["processor"], loads["processor_wait"]
    assert work.utilisation == pytest.approx(1.5)
    assert work.capacity_qps == pytest.approx(1 / 0.3)
    assert (work.service_ms, work.n, work.calls) == (300.0, 150, 150)
    assert (work.observed_width, work.configured_width, work.width) == (1, 1, 1)
    assert (wait.utilisation, wait.capacity_qps, wait.configured_width) == (None, None, None)
    assert wait.ms is not None
    # request i waits i * 100 ms; nearest ranks of 150 are 75, 135 and 149
    assert (wait.ms["p50"], wait.ms["p90"], wait.ms["p99"]) == (7400.0, 13400.0, 14800.0)
    assert (wait.growth.verdict, work.growth.verdict) == ("growing", "stable")
    assert wait.observed_width == 50  # at 29.8 s: 51 in the server, one of them in the processor
    assert bottleneck(list(loads.values()), 5.0) == {
        "stage": "processor",
        "utilisation": 1.5,
        "capacity_qps": 3.333333,
        "width": 1,
        "settings": [
            "--renderer-workers",
            "--omp-threads",
            "--renderer-num-workers",
            "--api-server-count",
            "OMP_NUM_THREADS",
        ],
        "sentence": (
            "The processor is the bottleneck: 5.0 requests/s offered, 300 ms each on 1 worker is"
            " utilisation 1.50; it can carry 3.33 requests/s. More renderer workers"
            " (--renderer-workers) or a faster processor move it."
        ),
    }


def test_two_workers_of_300_ms_at_5_a_second() -> None:
    queue = DeterministicQueue(workers=2)
    loads = loads_of(queue.records, queue.spans)
    work = loads["processor"]
    assert work.utilisation == pytest.approx(0.75)
    assert work.capacity_qps == pytest.approx(2 / 0.3)
    assert work.width == 2
    assert loads["processor_wait"].growth.verdict == "stable"
    found = bottleneck(list(loads.values()), 5.0)
    assert found is not None
    assert found["sentence"].startswith(
        "The processor is the bottleneck: 5.0 requests/s offered, 300 ms each on 2 workers is"
        " utilisation 0.75; it can carry 6.67 requests/s."
    )


def test_the_width_is_what_was_seen_where_the_server_does_not_say() -> None:
    records = every_200_ms(100)
    spans = [
        span(r.request_id, "processor", r.intended_ns, r.intended_ns + 500 * MS) for r in records
    ]
    work = loads_of(records, spans)["processor"]
    assert (work.configured_width, work.observed_width) == (None, 3)  # 500 ms over 200 ms apart
    assert work.utilisation == pytest.approx(5 * 0.5 / 3)
    found = bottleneck([work], 5.0)
    assert found is not None  # 0.83 of what was seen says nothing about what it can do
    assert found["sentence"] == (
        "No stage is known to be near its limit. The busiest is the processor: 5.0 requests/s"
        " offered, 500 ms each, at most 3 at once; nothing waited for it, so it may be able to do"
        " more."
    )


def test_a_stage_that_was_waited_for_is_at_its_width() -> None:
    records = every_200_ms(100)
    spans = []
    for r in records:
        t = r.intended_ns
        spans.append(span(r.request_id, "processor_wait", t, t + 20 * MS))
        spans.append(span(r.request_id, "processor", t + 20 * MS, t + 180 * MS))
        spans.append(span(r.request_id, "handoff", t, t + 190 * MS))  # busier, but no queue
    found = bottleneck(list(loads_of(records, spans).values()), 5.0)
    assert found is not None
    assert (found["stage"], found["utilisation"]) == ("processor", 0.8)
    assert found["sentence"].startswith("The processor is the bottleneck")


def test_a_width_stamped_on_the_wait_is_the_works() -> None:
    records = every_200_ms(100)
    spans = []
    for r in records:
        t = r.intended_ns
        spans.append(span(r.request_id, "renderer_wait", t, t + MS, pool_width=4))
        spans.append(span(r.request_id, "tokenize", t + MS, t + 21 * MS))
    work = loads_of(records, spans)["tokenize"]
    assert (work.configured_width, work.observed_width) == (4, 1)
    assert work.utilisation == pytest.approx(5 * 0.02 / 4)


def test_several_spans_of_a_request_are_one_service() -> None:
    # three media of 20 ms in parallel: 60 ms of work a request, three threads wide
    records = every_200_ms(50)
    spans = [
        span(r.request_id, "media_decode", r.intended_ns, r.intended_ns + 20 * MS, media=k)
        for r in records
        for k in range(3)
    ]
    for k, one in enumerate(spans):
        one.start_ns += k % 3  # not the very same span thrice
    work = loads_of(records, spans)["media_decode"]
    assert (work.n, work.calls, work.observed_width) == (50, 150, 3)
    assert work.ms is not None and work.self_ms is not None
    assert work.ms["p50"] == pytest.approx(60, abs=1e-5)
    assert work.self_ms["p50"] == 20.0
    assert work.utilisation == pytest.approx(5 * 0.06 / 3, rel=1e-6)


def test_a_stage_that_half_of_the_requests_skip_costs_half() -> None:
    records = every_200_ms(100)
    spans = [
        span(r.request_id, "processor", r.intended_ns, r.intended_ns + 100 * MS)
        for r in records[::2]
    ]
    spans += [span(r.request_id, "tokenize", r.intended_ns, r.intended_ns + MS) for r in records]
    work = loads_of(records, spans)["processor"]
    assert work.n == 50
    assert work.ms is not None and work.ms["mean"] == 100.0
    assert work.service_ms == 50.0
    assert work.utilisation == pytest.approx(0.25)
    assert work.capacity_qps == pytest.approx(20.0)


def test_failures_count_for_the_width_and_not_for_the_times() -> None:
    records = every_200_ms(10)
    records[9].outcome = Outcome.timeout
    spans = [
        span(r.request_id, "processor", r.intended_ns, r.intended_ns + 100 * MS) for r in records
    ]
    spans[9] = span("r-000009", "processor", 1600 * MS, 9000 * MS)
    work = loads_of(records, spans)["processor"]
    assert work.ms is not None
    assert (work.n, work.ms["max"], work.observed_width, work.calls) == (9, 100.0, 2, 10)


@pytest.mark.parametrize("stage", ["decode", "prefill"])
def test_a_batched_stage_is_judged_by_how_long_it_is_busy(stage: str) -> None:
    records = every_200_ms(100)  # 20 s
    batched: dict[str, Any] = {} if stage == "decode" else {"batched": True}
    spans = [
        span(r.request_id, stage, r.intended_ns, r.intended_ns + 100 * MS, **batched)
        for r in records
    ]
    work = loads_of(records, spans)[stage]
    assert work.batched
    assert work.utilisation == pytest.approx(0.5)
    assert work.capacity_qps is None
    assert bottleneck([work], 5.0) is None


def test_a_server_that_decodes_one_by_one_has_a_capacity() -> None:
    records = every_200_ms(100)
    spans = [
        span(
            r.request_id,
            "decode",
            r.intended_ns,
            r.intended_ns + 100 * MS,
            batched=False,
            pool_width=1,
        )
        for r in records
    ]
    work = loads_of(records, spans)["decode"]
    assert not work.batched and work.capacity_qps == pytest.approx(10.0)
    assert work.facts == {}


def test_time_off_the_cpu_and_means_of_facts() -> None:
    queue = DeterministicQueue()
    for one in queue.spans:
        if one.stage == "processor":
            one.facts |= {"cpu_ns": 120 * MS, "threads": 1, "cache_hit": False, "name": "x"}
    loads = loads_of(queue.records, queue.spans)
    work = loads["processor"]
    assert work.facts == {"cpu_ms": 120.0, "threads": 1.0, "cache_hit": 0.0}
    assert work.off_cpu_share == pytest.approx(0.6)
    found = bottleneck(list(loads.values()), 5.0)
    assert found is not None
    assert "For 60% of that time its thread was not on a CPU" in found["sentence"]


def test_no_stage_near_its_limit() -> None:
    records = every_200_ms(100)
    spans = [
        span(r.request_id, "processor", r.intended_ns, r.intended_ns + 20 * MS, pool_width=1)
        for r in records
    ]
    found = bottleneck(list(loads_of(records, spans).values()), 5.0)
    assert found is not None
    assert found["sentence"] == (
        "No stage is near its limit. The busiest is the processor: 5.0 requests/s offered, 20 ms"
        " each on 1 worker is utilisation 0.10; it can carry 50.00 requests/s."
    )


def test_a_queue_that_grows_names_the_stage_behind_it() -> None:
    # the engine's queue grows although its prefill, seen alone, has room
    queue = DeterministicQueue()
    rename = {"processor_wait": "engine_wait", "processor": "decode"}
    for one in queue.spans:
        one.stage, one.facts = rename[one.stage], {}
    queue.spans += [
        span(r.request_id, "processor", r.intended_ns, r.intended_ns) for r in queue.records
    ]
    found = bottleneck(list(loads_of(queue.records, queue.spans).values()), 5.0)
    assert found is not None
    assert (found["stage"], found["capacity_qps"]) == ("decode", None)
    assert found["sentence"].startswith("The decode is the bottleneck: requests queue up in front")


@pytest.mark.parametrize("own_pool", [False, True])
def test_of_stages_that_share_a_growing_pool_the_longest_is_blamed(own_pool: bool) -> None:
    """The processor in the renderer's pool is to blame; in a pool of its own it is not."""
    queue = DeterministicQueue()
    spans = []
    for one in queue.spans:
        if one.stage == "processor_wait":
            one.stage = "renderer_wait"
        else:  # 2 ms of tokenising, then the processor, on the same thread
            ends = one.start_ns - ORIGIN_NS + 2 * MS
            spans.append(span(one.request_id, "tokenize", ends - 2 * MS, ends, pool_width=1))
            one.start_ns += 2 * MS
            if own_pool:
                start = one.start_ns - ORIGIN_NS
                spans.append(span(one.request_id, "processor_wait", start, start, pool_width=1))
        spans.append(one)
    found = bottleneck(list(loads_of(queue.records, spans).values()), 5.0)
    assert found is not None
    assert found["stage"] == ("tokenize" if own_pool else "processor")


def test_a_queue_that_grows_at_low_utilisation_says_so() -> None:
    queue = DeterministicQueue()
    for one in queue.spans:
        one.facts = {"pool_width": 2}  # two were given, one works
    loads = list(loads_of(queue.records, queue.spans).values())
    found = bottleneck(loads, 5.0)
    assert found is not None
    assert "its queue grows although 5.0 requests/s offered, 300 ms each on 2" in found["sentence"]
    assert [load.name for load in idle_pools(loads)] == ["processor"]


def test_without_spans_there_is_no_bottleneck() -> None:
    assert bottleneck([], 5.0) is None


def test_client_stages() -> None:
    # intended 0, sent 3, handed over 7, first span at 12
    one = record(0, 0, 100 * MS, sent_ns=3 * MS, send_end_ns=7 * MS)
    other = record(1, 0, 100 * MS, sent_ns=None, send_end_ns=None, outcome=Outcome.client_error)
    loads = loads_of([one, other], [span("r-000000", "processor", 12 * MS, 90 * MS)])
    means = {name: load.ms["mean"] for name, load in loads.items() if load.ms}
    assert means == {"schedule_lag": 3.0, "send": 4.0, "accept_wait": 5.0, "processor": 78.0}
    assert loads["accept_wait"].phase == "queueing"


def test_threads_that_starve_one_another_are_not_told_to_be_more() -> None:
    """Two workers, each off the CPU for 60 % of its time: a third would take cores from them."""
    queue = DeterministicQueue(workers=2)
    for one in queue.spans:
        if one.stage == "processor":
            one.facts |= {"cpu_ns": 120 * MS}
    found = bottleneck(list(loads_of(queue.records, queue.spans).values()), 5.0)
    assert found is not None
    assert "For 60% of that time" in found["sentence"]
    assert found["sentence"].endswith("fewer threads each, or more cores move it.")
