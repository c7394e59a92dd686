"""VALID or INVALID with its reasons, and the warnings: each on a run made to have just that."""

from typing import Any

import numpy as np
import pytest

from mmload.analysis.measures import Measures, failures
from mmload.analysis.summary import summarise
from mmload.analysis.verdict import lag_limit_ms
from mmload.records import Outcome, Record, RecordTable, ServerProcess, Span
from mmload.rundir import RunEnd
from tests.unit.analysis_samples import MS, DeterministicQueue, S, manifest, record, span


def run(
    records: list[Record],
    end: RunEnd | None = RunEnd(ended_ns=100 * S),  # noqa: B008
    spans: list[Span] | None = None,
    processes: list[ServerProcess] | None = None,
    damaged: int = 0,
    **changed: Any,
) -> dict[str, Any]:
    asked = {"planned": len(records), "asked_qps": 10.0, "schedule_s": len(records) / 10} | changed
    return summarise(
        manifest(**asked), end, RecordTable.of(records), spans or [], processes or [], damaged
    ).summary


def every_100_ms(n: int, answer_ms: int = 200, lag_ms: int = 0, **changed: Any) -> list[Record]:
    return [
        record(
            i,
            i * 100 * MS,
            (i * 100 + lag_ms + answer_ms) * MS,
            sent_ns=(i * 100 + lag_ms) * MS,
            send_end_ns=(i * 100 + lag_ms) * MS,
            **changed,
        )
        for i in range(n)
    ]


def failing(index: int, outcome: Outcome, **changed: Any) -> Record:
    values: dict[str, Any] = {
        "outcome": outcome,
        "first_output_ns": None,
        "first_answer_ns": None,
        "last_output_ns": None,
        "chunk_ns": [],
    }
    return record(index, index * 100 * MS, (index * 100 + 10) * MS, **(values | changed))


def codes(summary: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in summary["warnings"]]


def test_a_run_on_time_is_valid() -> None:
    summary = run(every_100_ms(400))
    assert (summary["valid"], summary["invalid_reasons"]) == (True, [])
    assert codes(summary) == []


# -- INVALID ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttft_ms", "asked_ms", "limit_ms"), [(200, 25.0, 25.0), (1000, 25.0, 50.0), (200, 40.0, 40.0)]
)
def test_the_lag_limit(ttft_ms: int, asked_ms: float, limit_ms: float) -> None:
    table = RecordTable.of(every_100_ms(10, ttft_ms, lag_ms=500))
    found = lag_limit_ms(manifest(lag_limit_ms=asked_ms), Measures.of(table))
    assert found == limit_ms  # 500 ms of lag do not excuse themselves


def test_late_sends_are_invalid_from_the_99th_percentile_on() -> None:
    def late(count: int) -> list[Record]:
        records = every_100_ms(400)
        for one in records[100 : 100 + count]:
            assert one.sent_ns is not None
            one.sent_ns += 26 * MS
        return records

    assert run(late(4))["valid"]  # rank 396 of 400 is the last on time
    (reason,) = run(late(5))["invalid_reasons"]
    assert reason == (
        "The generator sent late: lag p99 is 26.0 ms, the limit is 25.0 ms. Its machine was too"
        " busy or the bodies too large for its network: lower the rate, add --workers, or move the"
        " generator off the server's cores."
    )


def test_a_rate_under_98_percent_of_the_schedules_own_is_invalid() -> None:
    """183 of 200 requests/s: each send drifts a little further from its intended time."""
    records = []
    for i in range(2000):
        sent = round(i * S / 183)
        records.append(record(i, i * 5 * MS, sent + 900 * MS, sent_ns=sent, send_end_ns=sent))
    reasons = run(records, asked_qps=200.0, schedule_s=10.0)["invalid_reasons"]
    assert any("183.0 requests/s of the schedule's 200.0, 91.5%" in reason for reason in reasons)


def test_a_few_close_sends_are_no_shortfall() -> None:
    records = [record(i, i * MS, 50 * MS, sent_ns=i * 2 * MS) for i in range(3)]
    assert run(records, asked_qps=1000.0, schedule_s=0.003)["valid"]  # half the rate, 2 ms late


def test_dropped_requests_are_invalid() -> None:
    records = every_100_ms(400)
    records[7] = Record(
        index=7,
        request_id="r-000007",
        media_class="15 frames 854x480",
        payload=0,
        intended_ns=700 * MS,
        outcome=Outcome.dropped,
    )
    summary = run(records)
    assert (summary["planned"], summary["sent"], summary["dropped"]) == (400, 399, 1)
    (reason,) = summary["invalid_reasons"]
    assert reason.startswith("Never sent: 1 of 400 requests, because the limit on")


def test_nothing_ok_is_invalid_with_the_servers_words() -> None:
    records = [failing(i, Outcome.http_error, message="404 no such model") for i in range(3)]
    (reason,) = run(records)["invalid_reasons"]
    assert reason.startswith("No request succeeded (3 x http error: 404 no such model).")


def test_no_request_sent_is_invalid() -> None:
    one = failing(0, Outcome.unsent, sent_ns=None, closed_ns=None)
    summary = run([one], end=RunEnd(interrupted=True))
    assert (summary["sent"], summary["unsent"]) == (0, 1)
    assert summary["invalid_reasons"] == [
        "No request was sent, so nothing was measured. Let the run go on for longer."
    ]
    assert summary["ttft_ms"] is None


def test_a_killed_run_is_invalid_and_its_books_balance() -> None:
    summary = run(every_100_ms(300), end=None, planned=400, schedule_s=40.0)
    assert (summary["valid"], summary["interrupted"]) == (False, True)
    assert (summary["planned"], summary["sent"], summary["missing"]) == (400, 300, 100)
    assert summary["invalid_reasons"] == [
        "The run was killed before it ended: what it had recorded is here, the rest is lost. Run it"
        " again."
    ]


def test_an_interrupted_run_is_flagged_and_may_be_valid() -> None:
    records = every_100_ms(380)
    records += [failing(i, Outcome.unsent, sent_ns=None, closed_ns=None) for i in range(380, 400)]
    summary = run(records, end=RunEnd(interrupted=True, ended_ns=38 * S))
    assert (summary["valid"], summary["interrupted"]) == (True, True)
    assert (summary["sent"], summary["unsent"]) == (380, 20)
    assert codes(summary) == ["interrupted"]
    assert summary["queue"]["verdict"] == "stable"  # judged over the time in which it ran


def test_what_the_run_itself_found_wrong_is_invalid() -> None:
    end = RunEnd(problems=["A load worker died. Look at its message."], lost_records=2)
    reasons = run(every_100_ms(398), end=end, planned=400)["invalid_reasons"]
    assert reasons[0] == "A load worker died. Look at its message."
    assert reasons[1].startswith("Records that could not be written: 2. Free space")


def test_missing_records_are_invalid() -> None:
    (reason,) = run(every_100_ms(399), planned=400)["invalid_reasons"]
    assert reason.startswith("1 of 400 planned requests have no record")


# -- warnings --------------------------------------------------------------------------------------


def test_failures_are_named_and_kept_out_of_the_figures() -> None:
    records = every_100_ms(400)
    records[3] = failing(3, Outcome.timeout, message="60 s")
    records[9] = failing(9, Outcome.http_error, message="503")
    records[10] = failing(10, Outcome.http_error, message="503")
    summary = run(records)
    assert summary["failed"] == {"http_error": 2, "timeout": 1}
    assert summary["failure_messages"] == {"timeout": ["60 s"], "http_error": ["503"]}
    assert summary["sent"] == summary["ok"] + sum(summary["failed"].values())
    assert summary["ttft_ms"]["n"] == 397
    assert summary["ttft_ms"]["max"] == 200.0
    (warning,) = summary["warnings"]
    assert warning["message"] == "3 of 400 requests failed: 2 x http error, 1 x timeout."


def test_p99_needs_368_samples() -> None:
    assert codes(run(every_100_ms(368))) == []
    assert codes(run(every_100_ms(367))) == ["few_samples"]


def test_answers_in_one_piece() -> None:
    summary = run(every_100_ms(400, output_tokens=20))
    assert codes(summary) == ["single_chunk"]
    assert summary["tpot_ms"] is None
    assert codes(run(every_100_ms(400, output_tokens=1))) == []


@pytest.mark.parametrize(
    ("cached", "asked", "expected"), [(400, 0, ["cache_hits"]), (64, 0, []), (400, 0.5, [])]
)
def test_cache_hits_where_nothing_was_repeated(
    cached: int, asked: float, expected: list[str]
) -> None:
    records = every_100_ms(400, prompt_tokens=800, cached_tokens=cached)
    assert codes(run(records, media={"reuse_asked": asked})) == expected


@pytest.mark.parametrize(
    ("media", "expected"),
    [
        ({"reuse_asked": None, "reuse_actual": 0.6}, ["repeated_media"]),
        ({"reuse_asked": None, "reuse_actual": 0.0}, []),
        ({"reuse_asked": 0.6, "reuse_actual": 0.6}, []),
        ({}, []),
    ],
)
def test_files_that_come_round_undeclared(media: dict[str, object], expected: list[str]) -> None:
    assert codes(run(every_100_ms(400), media=media)) == expected


def slow_start() -> list[Record]:
    """60 requests of 2,000 ms, then 340 of 200 ms."""
    records = every_100_ms(400)
    for one in records[:60]:
        for name in ("first_output_ns", "first_answer_ns", "last_output_ns", "closed_ns"):
            setattr(one, name, one.intended_ns + 2_000 * MS)
    return records


def test_a_slow_start_is_named_and_stays_in_the_figures_unless_asked() -> None:
    summary = run(slow_start())
    assert codes(summary) == ["slow_start"]
    assert "first 60 requests" in summary["warnings"][0]["message"]
    assert summary["warmup_cut"] == 0
    assert (summary["ttft_ms"]["n"], summary["ttft_ms"]["max"]) == (400, 2000.0)


def test_a_slow_start_is_cut_and_counted_when_asked() -> None:
    summary = run(slow_start(), scenario={"cut_warmup": True})
    assert summary["warmup_cut"] == 60 and summary["ok"] == 400
    assert "slow_start" not in codes(summary)
    for name in ("ttft_ms", "e2e_ms", "ttft_from_sent_ms"):
        assert (summary[name]["n"], summary[name]["max"]) == (340, 200.0)
    assert summary["lag_ms"]["n"] == 400
    assert sum(one["ttft_ms"]["n"] for one in summary["classes"].values()) == 340


def test_reasoning_first() -> None:
    records = every_100_ms(400, answer_ms=1000)
    for one in records:
        one.first_output_ns = one.intended_ns + 400 * MS
    summary = run(records)
    assert codes(summary) == ["reasoning"]
    assert "600 ms after the first output" in summary["warnings"][0]["message"]


def test_growing_simulated_and_notes() -> None:
    queue = DeterministicQueue(requests=400)
    summary = run(
        queue.records,
        asked_qps=5.0,
        schedule_s=80.0,
        simulated="the engine sleeps",
        notes=["The body is large."],
    )
    assert codes(summary) == ["simulated", "growing", "note"]
    assert "by 1.67 requests a second" in summary["warnings"][1]["message"]


def test_lost_spans_damaged_lines_unjoined_requests() -> None:
    records = every_100_ms(400)
    spans = [
        span(r.request_id, "processor", r.intended_ns, r.intended_ns + MS) for r in records[1:]
    ]
    processes = [ServerProcess(pid=1, lost=3), ServerProcess(pid=2, lost=4)]
    summary = run(records, spans=spans, processes=processes, damaged=2)
    assert codes(summary) == ["spans_lost", "damaged_lines", "unjoined"]
    said = [warning["message"] for warning in summary["warnings"]]
    assert "lost: 7." in said[0]
    assert said[1].endswith("left out: 2.")
    assert said[2] == "1 of 400 sent requests have no spans."
    assert (summary["joined"], summary["unjoined"]) == (399, 1)


def test_a_traced_run_without_spans_says_so() -> None:
    summary = run(every_100_ms(400), traced=True, span_source="the server's hook, from spans")
    assert codes(summary) == ["no_spans"]
    assert "the server's hook, from spans" in summary["warnings"][0]["message"]
    assert summary["bottleneck"] is None


def test_a_pool_that_is_not_used_and_a_single_torch_thread() -> None:
    queue = DeterministicQueue(requests=400)
    for one in queue.spans:
        one.facts = {"pool_width": 2, "threads": 1}
    summary = run(queue.records, spans=queue.spans, asked_qps=5.0, schedule_s=80.0)
    assert codes(summary) == ["growing", "pool_idle", "one_thread"]


def test_work_in_an_unknown_pool_is_what_its_wait_is_for() -> None:
    """And what it waits for meanwhile may be anything: more workers may well move it."""
    queue = DeterministicQueue(requests=400)
    for one in queue.spans:
        one.stage = one.stage.replace("processor_wait", "pool_wait").replace(
            "processor", "pool_work"
        )
        one.facts = {"cpu_ns": 0} if one.stage == "pool_work" else {"pool_width": 1}
    summary = run(queue.records, spans=queue.spans, asked_qps=5.0, schedule_s=80.0)
    said = summary["bottleneck"]
    assert (said["stage"], said["width"], said["capacity_qps"]) == ("pool_work", 1, 3.333333)
    assert said["sentence"].endswith(
        "it can carry 3.33 requests/s. For 100% of that time its thread was not on a CPU: it waited"
        " for the GIL, for input, a device, other threads, or for a core. More threads in that"
        " pool, or more server processes, move it."
    )


def test_a_model_on_the_cpu_is_no_accelerator() -> None:
    processes = [ServerProcess(pid=1, settings={"engine": "torch", "device": "CPU"})]
    queue = DeterministicQueue(requests=400)
    for one in queue.spans:
        one.stage, one.facts = "encoder", {"pool_width": 1, "threads": 1}
    summary = run(
        queue.records, spans=queue.spans, processes=processes, asked_qps=5.0, schedule_s=80.0
    )
    assert codes(summary) == ["growing", "engine_on_cpu", "one_thread"]
    assert "--engine-threads" in summary["warnings"][-1]["hint"]


def test_a_clock_that_no_offset_fits() -> None:
    records = every_100_ms(400)
    spans = []
    for i, r in enumerate(records):
        shift = S if i < 50 else 2 * S
        start = r.intended_ns + shift
        spans.append(span(r.request_id, "processor", start + MS, start + 199 * MS))
    summary = run(
        records,
        spans=spans,
        processes=[ServerProcess(pid=1, boot_id="there")],
        machine={"boot_id": "here"},
    )
    assert "clock" in codes(summary)
    assert summary["clock_offsets"][0]["consistent"] is False


def test_failures_are_counted_by_kind_within_a_mask() -> None:
    table = RecordTable.of([failing(0, Outcome.empty), failing(1, Outcome.cut_off)])
    assert failures(table) == {"empty": 1, "cut_off": 1}
    assert failures(table, np.array([False, True])) == {"cut_off": 1}
