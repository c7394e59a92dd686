"""Promise 14: every request is joined to its spans or counted; another clock is an interval."""

from typing import Any

import numpy as np
import pytest

from mmload.analysis.join import IdIndex, join
from mmload.records import Outcome, Record, RecordTable, ServerProcess, Span
from tests.unit.analysis_samples import MS, ORIGIN_NS, S, record, span

ID = "3f2a9c1e-77aa-4b1c-9d1e-0a1b2c3d4e5f"  # a uuid, whose own tail must not be taken off


@pytest.mark.parametrize(
    "seen",
    [
        ID,
        f"chatcmpl-{ID}",
        f"cmpl-{ID}",
        f"resp_{ID}",
        f"{ID}-deadbeef",
        f"chatcmpl-{ID}-0123abcd",
        f"0_chatcmpl-{ID}-0123abcd",
        f"12_{ID}",
    ],
)
def test_known_decorations_are_taken_off(seen: str) -> None:
    assert IdIndex(["other", ID]).find(seen) == 1


@pytest.mark.parametrize(
    "seen", ["", "renderer0-mm-3", ID[:-1], f"x{ID}", f"{ID}-deadbee", f"{ID}-DEADBEEF", f"{ID}-x"]
)
def test_what_fits_no_request_joins_nothing(seen: str) -> None:
    assert IdIndex(["other", ID]).find(seen) == IdIndex.NONE


def test_the_exact_id_wins_then_the_least_taken_off() -> None:
    index = IdIndex(["a", "a-deadbeef", "chatcmpl-a", "1_a"])
    assert index.find("a-deadbeef") == 1
    assert index.find("chatcmpl-a") == 2
    assert index.find("1_a") == 3
    assert index.find("chatcmpl-a-deadbeef") == 2  # not 1: less is taken off
    assert index.find("2_a") == 0


def test_a_request_id_used_twice_joins_nothing_and_is_counted() -> None:
    records = [record(0, 0, 10 * MS), record(1, 0, 10 * MS), record(2, 0, 10 * MS)]
    records[1].request_id = records[0].request_id
    table = RecordTable.of(records)
    spans = [span(r.request_id, "processor", 1 * MS, 2 * MS) for r in records[1:]]
    joined = join(table, spans, [], ORIGIN_NS)
    assert joined.has_spans.tolist() == [False, False, True]
    assert (joined.ambiguous_ids, joined.stray_ids) == (1, 0)


def test_stray_repeated_and_reversed_spans_are_counted_and_left_out() -> None:
    table = RecordTable.of([record(0, 0, 100 * MS), record(1, 0, 100 * MS)])
    good = span("r-000000", "processor", 10 * MS, 30 * MS)
    spans = [
        good,
        good,  # a buffer flushed twice
        span("r-000000", "processor", 40 * MS, 50 * MS),  # the same stage again: not a repeat
        span("r-000000", "tokenize", 9 * MS, 8 * MS),
        span("foreign", "processor", 0, 1),
        span("foreign", "tokenize", 1, 2),
        span("warmup-r-0", "processor", 0, 1),  # of a warm-up request: known, and not counted
        span("else", "processor", 0, 1),
    ]
    joined = join(table, spans, [], ORIGIN_NS)
    assert joined.stray_ids == 2
    assert joined.repeated_spans == 1
    assert joined.reversed_spans == 1
    assert joined.row.tolist() == [0, 0]
    assert joined.start_ns.tolist() == [10 * MS, 40 * MS]
    assert joined.end_ns.tolist() == [30 * MS, 50 * MS]
    assert joined.has_spans.tolist() == [True, False]


def test_facts_are_summed_by_stage() -> None:
    table = RecordTable.of([record(0, 0, 100 * MS)])
    spans = [
        span("r-000000", "processor", 0, 10 * MS, cpu_ns=8 * MS, cache_hit=True, pool_width=2),
        span("r-000000", "processor", 20 * MS, 40 * MS, cpu_ns=4 * MS, cache_hit=False, note="x"),
        span("r-000000", "processor", 50 * MS, 99 * MS),
    ]
    facts = join(table, spans, [], ORIGIN_NS).facts[0]
    assert facts.sums == {"cpu_ns": 12.0 * MS, "cache_hit": 1.0, "pool_width": 2.0}
    assert facts.counts == {"cpu_ns": 2, "cache_hit": 2, "pool_width": 1}
    assert facts.pool_width == 2
    assert (facts.cpu_ns, facts.cpu_wall_ns) == (12 * MS, 30 * MS)  # the third did not measure it


# -- another host's clock --------------------------------------------------------------------------


def exchanges(n: int, **changed: Any) -> list[Record]:
    """Every 100 ms one of 50 ms; the server has it from 2 ms after the send to 1 before close."""
    return [record(i, i * 100 * MS, i * 100 * MS + 50 * MS, **changed) for i in range(n)]


def on_other_clock(records: list[Record], offset_ns: int, drift: float = 0.0) -> list[Span]:
    """Their spans as a host stamps them whose clock is off by `offset_ns` + `drift` x run time."""

    def stamp(at_ns: int) -> int:
        return at_ns + offset_ns + round(drift * at_ns)

    return [
        Span(
            r.request_id,
            stage,
            ORIGIN_NS + stamp(r.intended_ns + start * MS),
            ORIGIN_NS + stamp(r.intended_ns + end * MS),
            pid=9,
        )
        for r in records
        for stage, start, end in (("http_receive", 2, 5), ("processor", 5, 49))
    ]


def test_an_offset_of_3_2_s_is_found_as_an_interval() -> None:
    records = exchanges(100)
    table = RecordTable.of(records)
    there = [ServerProcess(pid=9, boot_id="there")]
    joined = join(table, on_other_clock(records, 3200 * MS), there, ORIGIN_NS, "here")
    (offset,) = joined.offsets
    # first start - sent = 3202 ms bounds it above, last end - closed = 3199 ms below
    assert (offset.lo_ns, offset.hi_ns) == (3199 * MS, 3202 * MS)
    assert (offset.drift, offset.consistent, offset.exchanges) == (0.0, True, 100)
    # the spans are laid where the middle of the interval, 3200.5 ms, puts them
    first = np.flatnonzero(joined.row == 0)
    assert joined.start_ns[first].tolist() == [int(1.5 * MS), int(4.5 * MS)]
    assert joined.end_ns[first].tolist() == [int(4.5 * MS), int(48.5 * MS)]


@pytest.mark.parametrize("drift", [50e-6, -200e-6])
def test_a_drifting_clock_is_followed(drift: float) -> None:
    records = exchanges(1000)  # 100 s: 5 ms and -20 ms of drift, where the slack is 3 ms
    there = [ServerProcess(pid=9, boot_id="there")]
    spans = on_other_clock(records, -7 * S, drift)
    joined = join(RecordTable.of(records), spans, there, ORIGIN_NS, "here")
    (offset,) = joined.offsets
    assert offset.consistent
    assert offset.drift == pytest.approx(drift, rel=0.02)
    starts = joined.start_ns[joined.stage == 0]
    true = np.array([r.intended_ns + 2 * MS for r in records])
    assert np.abs(starts - true).max() < 3 * MS


def test_a_stepped_clock_is_called_inconsistent() -> None:
    records = exchanges(40)
    spans = on_other_clock(records[:10], S) + on_other_clock(records[10:], 2 * S)
    there = [ServerProcess(pid=9, boot_id="there")]
    joined = join(RecordTable.of(records), spans, there, ORIGIN_NS, "here")
    assert [offset.consistent for offset in joined.offsets] == [False]


def test_one_host_has_one_clock() -> None:
    records = exchanges(10)
    here = [ServerProcess(pid=9, boot_id="here")]
    joined = join(RecordTable.of(records), on_other_clock(records, 0), here, ORIGIN_NS, "here")
    assert joined.offsets == []
    assert joined.start_ns[:1].tolist() == [2 * MS]


def test_without_boot_ids_the_exchanges_tell() -> None:
    records = exchanges(10)
    table = RecordTable.of(records)
    unknown = [ServerProcess(pid=9)]
    same = join(table, on_other_clock(records, 0), unknown, ORIGIN_NS)
    assert same.offsets == []
    # stamps that end 5 ms after the client's: late, not another clock
    assert join(table, on_other_clock(records, 5 * MS), unknown, ORIGIN_NS).offsets == []
    assert len(join(table, on_other_clock(records, 3 * S), unknown, ORIGIN_NS).offsets) == 1


def test_requests_that_the_client_gave_up_on_do_not_bound_the_clock() -> None:
    records = exchanges(20)
    # a time-out after 50 ms, on which the server worked for 10 s
    lost = record(20, 2 * S, 2 * S + 50 * MS, outcome=Outcome.timeout, last_output_ns=None)
    spans = on_other_clock(records, S)
    spans.append(Span(lost.request_id, "processor", ORIGIN_NS + 3 * S, ORIGIN_NS + 13 * S, pid=9))
    there = [ServerProcess(pid=9, boot_id="there")]
    joined = join(RecordTable.of([*records, lost]), spans, there, ORIGIN_NS, "here")
    assert [o.consistent for o in joined.offsets] == [True]
    assert joined.start_ns[joined.row == 20].tolist() == [round(2 * S - 0.5 * MS)]


def test_each_clock_has_its_own_offset() -> None:
    records = exchanges(60)
    spans = on_other_clock(records[:30], S) + [
        Span(s.request_id, s.stage, s.start_ns, s.end_ns, pid=10)
        for s in on_other_clock(records[30:], -S)
    ]
    processes = [ServerProcess(pid=9, boot_id="east"), ServerProcess(pid=10, boot_id="west")]
    joined = join(RecordTable.of(records), spans, processes, ORIGIN_NS, "here")
    assert [round(o.lo_ns / MS) for o in joined.offsets] == [999, -1001]


def test_ids_of_the_servers_own_are_followed() -> None:
    """The engine names requests as it likes; the hand-over, which may be read later, says how."""
    table = RecordTable.of([record(0, 0, 100), record(1, 10, 110)])
    spans = [
        span("uuid-b", "decode", 60, 90),
        span("uuid-c", "decode", 60, 90),
        span("r-000001", "handoff", 20, 30, also_known_as="uuid-b"),
        span("r-000000", "handoff", 40, 50, also_known_as="uuid-a"),
        span("uuid-a", "decode", 70, 95),
    ]
    joined = join(table, spans, [], ORIGIN_NS)
    found = sorted(
        (int(row), joined.stage_names[stage], int(start))
        for row, stage, start in zip(joined.row, joined.stage, joined.start_ns, strict=True)
    )
    assert found == [(0, "decode", 70), (0, "handoff", 40), (1, "decode", 60), (1, "handoff", 20)]
    assert joined.stray_ids == 1  # uuid-c


def test_an_id_that_two_requests_are_known_by_joins_nothing() -> None:
    """Two engines that count from 0 each; and the engine's name of a warm-up request is no
    stranger's."""
    table = RecordTable.of([record(0, 0, 100), record(1, 10, 110)])
    spans = [
        span("r-000000", "handoff", 20, 30, also_known_as="0"),
        span("0", "decode", 60, 90),
        span("r-000001", "handoff", 20, 30, also_known_as="0"),
        span("warmup-r-0", "handoff", 1, 2, also_known_as="uuid-warm"),
        span("uuid-warm", "decode", 3, 4),
    ]
    joined = join(table, spans, [], ORIGIN_NS)
    assert joined.stage_names == ["handoff"]
    assert (joined.ambiguous_ids, joined.stray_ids) == (1, 0)


def test_the_pools_of_several_processes_add_up() -> None:
    table = RecordTable.of([record(0, 0, 100 * MS)])
    spans = [span("r-000000", "processor", i, i + 1, pool_width=2) for i in range(4)]
    for i, one in enumerate(spans):
        one.pid = 1 + i % 3
    assert join(table, spans, [], ORIGIN_NS).facts[0].pool_width == 6


def test_a_stretch_of_a_held_up_loop_that_was_written_twice_is_one() -> None:
    table = RecordTable.of([record(0, 0, 100 * MS)])
    held = [
        span("", "loop_blocked", 50, 60, where="m.later"),
        span("", "loop_blocked", 10, 20, where="m.first"),
        span("", "loop_blocked", 10, 20, where="m.first"),
    ]
    blocked = join(table, held, [], ORIGIN_NS).blocked
    assert (blocked.start_ns.tolist(), blocked.where) == ([10, 50], ["m.first", "m.later"])
