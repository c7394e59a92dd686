"""The whole way from records and spans to the summary and the charts, on runs of known truth."""

import json
from typing import Any

import numpy as np
import pytest

from mmload.analysis.queues import Steps
from mmload.analysis.series import SCATTER_POINTS
from mmload.analysis.summary import Analysis, summarise
from mmload.records import Outcome, Record, RecordTable, ServerProcess
from mmload.report import tables
from mmload.rundir import RunEnd
from tests.unit.analysis_samples import (
    MS,
    DeterministicQueue,
    S,
    documented_keys,
    manifest,
    record,
    span,
)


def analysed(queue: DeterministicQueue) -> Analysis:
    return summarise(queue.manifest, queue.end, queue.table, queue.spans, queue.processes)


def dist(n: int, mean: float, p50: float, p90: float, p99: float, top: float) -> dict[str, Any]:
    return {"n": n, "mean": mean, "p50": p50, "p90": p90, "p99": p99, "p99_9": None, "max": top}


def test_a_queue_that_cannot_keep_up() -> None:
    """5 requests/s, 300 ms each on one worker: request i waits i * 100 ms."""
    summary = analysed(DeterministicQueue(workers=1)).summary
    assert summary["valid"]
    assert (summary["planned"], summary["sent"], summary["ok"]) == (150, 150, 150)
    assert (summary["asked_qps"], summary["achieved_qps"]) == (5.0, 5.0)
    assert summary["elapsed_s"] == 45.0  # 150 x 300 ms
    # nearest ranks of 150: 75, 135, 149; request i takes 300 + i * 100 ms
    assert summary["e2e_ms"] == dist(150, 7750.0, 7700.0, 13700.0, 15100.0, 15200.0)
    assert summary["ttft_ms"] == summary["e2e_ms"] == summary["ttft_from_sent_ms"]
    assert summary["stages"]["processor_wait"]["ms"] == dist(
        150, 7450.0, 7400.0, 13400.0, 14800.0, 14900.0
    )
    assert summary["stages"]["processor"]["utilisation"] == 1.5
    assert summary["stages"]["processor"]["capacity_qps"] == 3.333333
    queue = summary["queue"]
    assert queue["verdict"] == "growing"
    assert queue["growth_per_s"] == pytest.approx(1.6667, abs=2e-4)
    assert queue["in_flight_max"] == 51
    assert queue["smallest_overload_seen"] == pytest.approx(2 / 75**0.5, abs=1e-6)
    assert queue["stages"]["processor_wait"]["verdict"] == "growing"
    assert queue["stages"]["processor"] == {"verdict": "stable", "growth_per_s": 0.0}
    assert summary["bottleneck"]["stage"] == "processor"
    p99 = summary["phases"]["p99"]
    assert (p99["request_id"], p99["index"], p99["e2e_ms"]) == ("r-000148", 148, 15100.0)
    assert p99["stages"]["processor_wait"] == 14800.0
    assert p99["phases"]["queueing"] == 14800.0
    assert summary["phases"]["mean"]["phases"]["cpu"] == 300.0
    assert summary["unattributed_ms"] == dist(150, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert (summary["joined"], summary["unjoined"], summary["stray_spans"]) == (150, 0, 0)


def test_the_same_with_two_workers_keeps_up() -> None:
    summary = analysed(DeterministicQueue(workers=2)).summary
    assert summary["queue"]["verdict"] == "stable"
    assert summary["queue"]["growth_per_s"] == pytest.approx(0, abs=1e-3)
    assert summary["queue"]["in_flight_max"] == 2
    assert summary["stages"]["processor"]["utilisation"] == 0.75
    assert summary["stages"]["processor"]["capacity_qps"] == 6.666667
    assert summary["e2e_ms"] == dist(150, 300.0, 300.0, 300.0, 300.0, 300.0)


def test_a_phase_that_nobody_saw_has_no_number() -> None:
    """0 ms of GPU would say that the accelerator took no time."""
    queue = DeterministicQueue(workers=2)
    for queue.manifest.traced in (True, False):  # a hook that wrote nothing, and none at all
        queue.spans = []
        summary = analysed(queue).summary
        mean = summary["phases"]["mean"]
        assert mean["phases"] == {"client": 0.0, "unattributed": 300.0} and mean["e2e_ms"] == 300.0
        assert tables.split_phases(summary) == ["client", "unattributed"]


def test_a_hook_that_wrote_nothing_is_said_to_have_sent_none() -> None:
    queue = DeterministicQueue(workers=2)
    queue.manifest.span_source, queue.spans = "the hook in the server", []
    queue.processes = []
    summary = analysed(queue).summary
    (said,) = [one["message"] for one in summary["warnings"] if one["code"] == "no_spans"]
    assert said == "The server was to be traced, but no span arrived from the hook in the server."
    assert tables.bottleneck(summary) == (
        "Unknown without spans from inside the server: none came from the hook in the server."
    )


def two_classes() -> list[Record]:
    """Two classes in turn; 10 chunks of 20 ms, 30 tokens by usage; one of twelve fails."""
    records = []
    for i in range(120):
        frames = 15 if i % 2 else 6
        first = i * 100 * MS + frames * 10 * MS
        chunks = [first + k * 20 * MS for k in range(10)]
        records.append(
            record(
                i,
                i * 100 * MS,
                chunks[-1],
                media_class=f"{frames} frames",
                sent_ns=i * 100 * MS + MS,
                send_end_ns=i * 100 * MS + 2 * MS,
                first_output_ns=first,
                first_answer_ns=first + 5 * MS,
                closed_ns=chunks[-1] + MS,
                chunk_ns=chunks,
                output_tokens=30,
                prompt_tokens=frames * 100,
                cached_tokens=8,
                bytes_sent=frames * 1000,
            )
        )
        if i % 12 == 5:  # all of the 15 frames
            records[-1].outcome = Outcome.stream_error
            records[-1].message = "engine died"
    return records


def test_classes_tokens_and_partial_failures() -> None:
    table = RecordTable.of(two_classes())
    asked = manifest(planned=120, asked_qps=10.0, schedule_s=12.0)
    summary = summarise(asked, RunEnd(ended_ns=20 * S), table, [], []).summary
    assert summary["ok"] == 110
    assert summary["failed"] == {"stream_error": 10}
    assert list(summary["classes"]) == ["6 frames", "15 frames"]
    six, fifteen = summary["classes"].values()
    assert (six["planned"], six["ok"], six["failed"]) == (60, 60, {})
    assert (fifteen["planned"], fifteen["ok"], fifteen["failed"]) == (60, 50, {"stream_error": 10})
    assert six["ttft_ms"] == dist(60, 60.0, 60.0, 60.0, 60.0, 60.0)
    assert fifteen["ttft_ms"] == dist(50, 150.0, 150.0, 150.0, 150.0, 150.0)
    assert fifteen["ttft_from_sent_ms"]["p50"] == 149.0
    assert fifteen["lag_ms"]["n"] == 60
    assert (fifteen["body_bytes"], fifteen["prompt_tokens"]) == (15000.0, 1500.0)
    assert fifteen["output_tokens"] == 30.0
    assert summary["ttfo_ms"]["max"] == 155.0
    # 9 gaps of 20 ms: 180 ms over 29 tokens; each gap is a sample of its own
    assert summary["tpot_ms"]["p50"] == pytest.approx(180 / 29, abs=1e-6)
    assert summary["chunk_gap_ms"]["n"] == 110 * 9
    assert summary["chunk_gap_ms"]["max"] == 20.0
    # from 0 to the last end: request 119 starts at 11.9 s, its first output after 150 ms
    assert summary["elapsed_s"] == pytest.approx(11.9 + 0.15 + 0.18)
    assert summary["tokens"] == {
        "prompt": 60 * 600 + 50 * 1500,
        "output": 110 * 30,
        "cached": 110 * 8,
        "media": None,
        "source": "usage",
        "output_per_s": round(3300 / 12.23, 3),
    }


def test_tokens_without_usage_are_chunks() -> None:
    records = two_classes()
    for one in records:
        one.output_tokens = None
    summary = summarise(manifest(), RunEnd(), RecordTable.of(records), [], []).summary
    assert (summary["tokens"]["source"], summary["tokens"]["output"]) == ("chunks", None)
    assert summary["tpot_ms"]["p50"] == 20.0  # 180 ms over 9
    records[0].output_tokens = 30
    summary = summarise(manifest(), RunEnd(), RecordTable.of(records), [], []).summary
    assert summary["tokens"]["source"] == "mixed"


def test_tpot_is_absent_and_never_zero() -> None:
    one_token = record(0, 0, 10 * MS, output_tokens=1, chunk_ns=[5 * MS, 10 * MS])
    one_chunk = record(1, 0, 10 * MS, output_tokens=9)
    table = RecordTable.of([one_token, one_chunk])
    assert summarise(manifest(), RunEnd(), table, [], []).summary["tpot_ms"] is None


def test_requests_in_flight_add_up_to_the_latencies() -> None:
    """Promise 3: the integral of the backlog is the sum of latencies; the books balance."""
    queue = DeterministicQueue()
    for i in (3, 70):
        queue.records[i].outcome = Outcome.timeout
        queue.records[i].closed_ns = 60 * S
    table = RecordTable.of(queue.records)
    summary = summarise(queue.manifest, queue.end, table, queue.spans, []).summary
    mean_ok_s = summary["e2e_ms"]["mean"] / 1000
    failed_s = sum(60 - queue.records[i].intended_ns / S for i in (3, 70))
    ends = np.where(table.is_outcome(Outcome.ok), table.times["last_output_ns"], 60 * S)
    area_s = Steps.of(table.times["intended_ns"], ends).integral() / S
    assert area_s == pytest.approx(mean_ok_s * summary["ok"] + failed_s, rel=1e-9)
    assert summary["sent"] == summary["ok"] + sum(summary["failed"].values())


def test_every_split_adds_up() -> None:
    queue = DeterministicQueue()
    for one in queue.spans:
        one.start_ns += 7  # leaves 7 ns in front of every stage
    for column in analysed(queue).summary["phases"].values():
        assert sum(column["phases"].values()) == pytest.approx(column["e2e_ms"], abs=1e-5)
        rest = column["phases"]["unattributed"]
        assert sum(column["stages"].values()) + rest == pytest.approx(column["e2e_ms"], abs=1e-5)


def test_joined_partly_is_a_request_short_of_a_usual_stage() -> None:
    queue = DeterministicQueue()
    short = {"r-000007", "r-000008"}
    queue.spans = [
        one for one in queue.spans if one.request_id not in short or one.stage != "processor"
    ]
    queue.spans.append(span("r-000001", "media_fetch", 0, 1))  # unusual: nobody is short of it
    summary = analysed(queue).summary
    assert (summary["joined"], summary["joined_partly"]) == (150, 2)


def test_a_closed_loop_has_no_verdict_on_growth() -> None:
    queue = DeterministicQueue()
    queue.manifest.load_mode = "closed"
    summary = analysed(queue).summary
    assert summary["queue"]["verdict"] == "cant_tell"
    assert summary["queue"]["reason"].startswith("closed load:")


def test_an_empty_run() -> None:
    analysis = summarise(manifest(), None, RecordTable.of([]), [], [])
    assert analysis.summary["valid"] is False
    assert (analysis.summary["planned"], analysis.summary["ttft_ms"]) == (0, None)
    assert analysis.summary["queue"]["verdict"] == "cant_tell"
    json.dumps(analysis.summary, allow_nan=False)
    json.dumps(analysis.series, allow_nan=False)


@pytest.mark.parametrize("traced", [True, False])
def test_the_summary_has_every_key_of_the_contract_and_is_strict_json(traced: bool) -> None:
    queue = DeterministicQueue()
    if not traced:
        queue.spans, queue.processes = [], []
    analysis = analysed(queue)
    keys = documented_keys("summary.json")
    assert len(keys) > 40
    assert set(keys) == set(analysis.summary)
    assert json.loads(json.dumps(analysis.summary, allow_nan=False)) == analysis.summary
    assert json.loads(json.dumps(analysis.series, allow_nan=False)) == analysis.series


def test_spans_and_processes_may_be_filled_by_reading() -> None:
    class Reading:
        damaged = 0

        def __init__(self, queue: DeterministicQueue) -> None:
            self.queue = queue
            self.processes: list[ServerProcess] = []

        def __iter__(self) -> Any:
            self.processes.append(ServerProcess(pid=1, role="server", settings={"workers": 1}))
            yield from self.queue.spans
            self.damaged = 3

    queue = DeterministicQueue()
    spans = Reading(queue)
    summary = summarise(
        queue.manifest, queue.end, queue.table, spans, spans.processes, damaged=1
    ).summary
    assert [one["settings"] for one in summary["server_processes"]] == [{"workers": 1}]
    assert [w for w in summary["warnings"] if w["code"] == "damaged_lines"][0]["message"].endswith(
        "left out: 4."
    )


# -- charts ----------------------------------------------------------------------------------------


def test_the_queue_chart() -> None:
    chart = analysed(DeterministicQueue()).series["queue"]
    assert (chart["time_s"][0], chart["time_s"][-1]) == (0.0, 45.0)
    both = zip(chart["arrivals"], chart["completions"], strict=True)
    at = dict(zip(chart["time_s"], both, strict=True))
    assert at[15.0] == (76, 50)
    assert at[45.0] == (150, 150)
    assert chart["backlog"] == [
        a - c for a, c in zip(chart["arrivals"], chart["completions"], strict=True)
    ]
    assert max(chart["stages"]["processor_wait"]["backlog"]) == 50


def test_the_scatter_keeps_the_slowest() -> None:
    rng = np.random.default_rng(2)
    ends = rng.permutation(20_000)
    records = [record(i, i * MS, i * MS + int(ends[i]) * MS) for i in range(20_000)]
    chart = summarise(manifest(), RunEnd(), RecordTable.of(records), [], []).series["latency"]
    assert len(chart["time_s"]) == SCATTER_POINTS
    assert chart["time_s"] == sorted(chart["time_s"])
    slowest = set(range(19_000, 20_000))
    assert slowest <= {round(ms) for ms in chart["e2e_ms"]}
    assert chart["class"][0] == "15 frames 854x480"


def test_curves_split_bars_and_outcomes() -> None:
    table = RecordTable.of(two_classes())
    asked = manifest(planned=120, schedule_s=12.0)
    charts = summarise(asked, RunEnd(ended_ns=20 * S), table, [], []).series
    assert list(charts["curve"]) == [
        "ttft",
        "e2e",
        "ttft: 6 frames",
        "e2e: 6 frames",
        "ttft: 15 frames",
        "e2e: 15 frames",
    ]
    assert charts["curve"]["ttft: 15 frames"]["percent"][-1] == 98.0  # 1 - 1/50
    assert charts["split"]["columns"] == ["mean", "p50", "p90", "p99"]
    assert charts["split"]["stages"] == {"schedule_lag": [1.0] * 4, "send": [1.0] * 4}
    outcomes = charts["outcomes"]
    assert (outcomes["bin_s"], len(outcomes["time_s"])) == (0.2, 60)
    assert sum(outcomes["ok"]) == 110
    assert sum(outcomes["failed"]["stream_error"]) == 10
    assert outcomes["failed"]["stream_error"][2] == 1  # request 5, at 0.5 s


def test_a_hundred_thousand_records() -> None:
    """The columns are worked on as a whole: this takes a second, not minutes."""
    n = 100_000
    records = (record(i, i * MS, i * MS + (i % 1000) * MS) for i in range(n))
    table = RecordTable.of(records)
    asked = manifest(planned=n, asked_qps=1000.0, schedule_s=n / 1000)
    summary = summarise(asked, RunEnd(), table, [], []).summary
    assert summary["e2e_ms"] == {
        "n": n,
        "mean": 499.5,
        "p50": 499.0,
        "p90": 899.0,
        "p99": 989.0,
        "p99_9": 998.0,
        "max": 999.0,
    }
    assert summary["queue"]["verdict"] == "stable"


def test_chunk_gaps_never_run_from_one_answer_into_the_next() -> None:
    rng = np.random.default_rng(6)
    records = []
    for i in range(300):
        chunks = (i * S + np.cumsum(rng.integers(1, 9, rng.integers(0, 4)))).tolist()
        outcome = Outcome.ok if i % 5 else Outcome.truncated
        records.append(record(i, i * S, i * S + 50, chunk_ns=chunks, outcome=outcome))
    expected = [
        b - a
        for one in records
        if one.outcome is Outcome.ok
        for a, b in zip(one.chunk_ns, one.chunk_ns[1:], strict=False)
    ]
    assert RecordTable.of(records, batch=7).gaps_ns.tolist() == expected
    assert RecordTable.of(records, batch=1000).gaps_ns.tolist() == expected
