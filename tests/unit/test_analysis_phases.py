"""Who owns each nanosecond: hand-worked timelines, and an independent count instant by instant."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmload.analysis.join import Joined, join
from mmload.analysis.phases import split
from mmload.hook.stages import phase_of
from mmload.records import Outcome, Record, RecordTable, Span
from tests.unit.analysis_samples import ORIGIN_NS, record, span


def parts_of(one: Record, spans: list[Span] | None) -> dict[str, int]:
    """Stage -> ns of a single record, stages without time left out."""
    table = RecordTable.of([one])
    joined: Joined | None = None
    if spans is not None:
        joined = join(table, spans, [], ORIGIN_NS)
    parts = split(np.array([0]), table.times, joined)
    assert parts.ns.sum() == parts.wall_ns[0]
    return {n: int(v) for n, v in zip(parts.stages, parts.ns[0], strict=True) if v}


def one(**changed: Any) -> Record:
    """Intended at 100, sent at 110, handed over at 115, done at 200."""
    return record(0, 100, 200, **({"sent_ns": 110, "send_end_ns": 115} | changed))


def at(stage: str, start: int, end: int) -> Span:
    return span("r-000000", stage, start, end)


def test_without_spans_only_the_client_is_known() -> None:
    assert parts_of(one(), None) == {"schedule_lag": 10, "send": 5, "unattributed": 85}


def test_an_unjoined_request_is_unattributed() -> None:
    table = RecordTable.of([one(), record(1, 100, 200)])
    joined = join(table, [span("r-000001", "processor", 100, 200)], [], ORIGIN_NS)
    parts = split(np.array([0, 1]), table.times, joined)
    found = [dict(zip(parts.stages, row.tolist(), strict=True)) for row in parts.ns]
    assert found[0]["unattributed"] == 85
    assert found[0]["accept_wait"] == 0
    assert (found[1]["unattributed"], found[1]["processor"]) == (0, 100)


def test_a_whole_request() -> None:
    spans = [
        at("http_receive", 120, 125),
        at("processor_wait", 125, 150),
        at("processor", 150, 180),
        at("decode", 183, 199),
    ]
    assert parts_of(one(), spans) == {
        "schedule_lag": 10,
        "send": 5,
        "accept_wait": 5,  # 115 to 120
        "http_receive": 5,
        "processor_wait": 25,
        "processor": 30,
        "decode": 16,
        "unattributed": 4,  # 180 to 183 and 199 to 200
    }


def test_work_beats_waiting_whichever_started_last() -> None:
    spans = [at("tokenize", 120, 150), at("processor_wait", 130, 170), at("processor", 160, 200)]
    found = parts_of(one(), spans)
    assert (found["tokenize"], found["processor_wait"], found["processor"]) == (30, 10, 40)


def test_of_nested_work_the_innermost_owns() -> None:
    spans = [at("processor", 120, 200), at("tokenize", 140, 160), at("media_decode", 150, 155)]
    found = parts_of(one(), spans)
    assert (found["processor"], found["tokenize"], found["media_decode"]) == (60, 15, 5)


def test_of_work_that_starts_together_the_one_that_ends_first_is_inner() -> None:
    found = parts_of(one(), [at("tokenize", 120, 140), at("processor", 120, 200)])
    assert (found["tokenize"], found["processor"]) == (20, 60)


def test_a_span_inside_the_send_wins_it() -> None:
    # the server reads the head while the body is still being handed over
    found = parts_of(one(send_end_ns=140), [at("http_receive", 125, 150)])
    assert (found["send"], found["http_receive"]) == (15, 25)
    assert "accept_wait" not in found


def test_what_lies_outside_the_request_is_cut_off() -> None:
    found = parts_of(one(), [at("processor", 50, 130), at("stream_out", 190, 260)])
    assert found == {"processor": 30, "stream_out": 10, "unattributed": 60}


def test_a_failure_runs_to_its_close() -> None:
    failed = one(outcome=Outcome.timeout, first_output_ns=None, last_output_ns=None, closed_ns=400)
    assert parts_of(failed, None)["unattributed"] == 285
    assert parts_of(one(sent_ns=None, send_end_ns=None), None) == {"unattributed": 100}


def test_streaming_out_does_not_hide_the_decoding_that_it_waits_for() -> None:
    spans = [at("decode", 130, 180), at("stream_out", 140, 190)]
    parts = parts_of(one(), spans)
    assert (parts["decode"], parts["stream_out"]) == (50, 10)


def test_unknown_stages_keep_their_own_phase() -> None:
    table = RecordTable.of([one()])
    spans = [Span("r-000000", "kv_transfer", ORIGIN_NS + 120, ORIGIN_NS + 130, phase="gpu")]
    parts = split(np.array([0]), table.times, join(table, spans, [], ORIGIN_NS))
    assert parts.phases[parts.stages.index("kv_transfer")] == "gpu"


STAGES = ["http_receive", "processor_wait", "processor", "engine_wait", "prefill", "stream_out"]
RANK = {"queueing": 0, "output": 1}
# few lengths, so that equal ends are common
spans_of_one = st.lists(
    st.tuples(
        st.sampled_from(STAGES),
        st.integers(0, 12).map(lambda n: 5 * n),
        st.sampled_from([0, 3, 5, 20]),
    ),
    max_size=7,
)
requests = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 10), st.integers(0, 10), spans_of_one),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(requests)
def test_agrees_with_asking_each_instant(
    drawn: list[tuple[int, int, int, list[tuple[str, int, int]]]],
) -> None:
    records, spans = [], []
    for i, (intended, lag, send, own) in enumerate(drawn):
        sent = intended + lag
        one = record(i, intended, intended + 50, sent_ns=sent, send_end_ns=sent + send)
        records.append(one)
        spans += [span(one.request_id, name, a, a + length) for name, a, length in own]
    table = RecordTable.of(records)
    parts = split(np.arange(len(records)), table.times, join(table, spans, [], ORIGIN_NS))
    for i, (intended, lag, send, own) in enumerate(drawn):
        expected = dict.fromkeys(parts.stages, 0)
        for instant in range(intended, intended + 50):
            expected[_owner(instant, intended, intended + lag, send, own)] += 1
        assert dict(zip(parts.stages, parts.ns[i].tolist(), strict=True)) == expected


def _owner(
    instant: int, intended: int, sent: int, send: int, own: list[tuple[str, int, int]]
) -> str:
    open_now = [(name, a, a + n) for name, a, n in own if a <= instant < a + n]
    if open_now:
        return max(
            open_now,
            key=lambda s: (RANK.get(phase_of(s[0]), 2), s[1], -s[2], STAGES.index(s[0])),
        )[0]
    if instant < sent:
        return "schedule_lag"
    if instant < sent + send:
        return "send"
    if own and instant < min(a for _, a, _ in own):
        return "accept_wait"
    return "unattributed"


@pytest.mark.parametrize("count", [1, 3000])
def test_many_requests_in_blocks(count: int) -> None:
    # request i has i % 5 + 1 spans of 10 ns, back to back from its intended time
    records = [record(i, i * 1000, i * 1000 + 100) for i in range(count)]
    spans = [
        span(r.request_id, "processor", r.intended_ns + 10 * k, r.intended_ns + 10 * k + 10)
        for i, r in enumerate(records)
        for k in range(i % 5 + 1)
    ]
    table = RecordTable.of(records)
    parts = split(np.arange(count), table.times, join(table, spans, [], ORIGIN_NS))
    expected = 10 * (np.arange(count) % 5 + 1)
    assert (parts.ns[:, parts.stages.index("processor")] == expected).all()
    assert (parts.ns.sum(axis=1) == parts.wall_ns).all()
