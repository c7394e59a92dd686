"""The generator on virtual time: every number here is worked out by hand."""

import asyncio
import math
from collections import Counter

import pytest

from mmload.load.generator import Generator
from mmload.load.schedule import arrivals, even
from mmload.records import Outcome, Record
from tests.virtual.loop import VirtualClock, run_virtual
from tests.virtual.scripted import (
    MS,
    FifoServer,
    S,
    Step,
    answer,
    chunk,
    failure,
    run,
)


def percentile(values: list[int], permille: int) -> int:
    """Nearest rank, by the definition."""
    return sorted(values)[math.ceil(permille * len(values) / 1000) - 1]


def ttft(records: list[Record]) -> list[int]:
    return [r.first_output_ns - r.intended_ns for r in records if r.first_output_ns is not None]


def schedule(qps: float, seconds: float) -> list[int]:
    return [int(t) for t in arrivals(even(), qps, duration_s=seconds)]


def test_a_frozen_server_shows_in_the_headline() -> None:
    """100 s of 1 ms answers, then 100 s of freeze (Tene's example): 50.001/80.001/98.001 s."""

    def server(index: int, now_ns: int) -> list[Step]:
        frozen = now_ns >= 100 * S
        return answer((200 * S if frozen else now_ns) + MS)

    records, _ = run_virtual(lambda clock: run(clock, schedule(100, 200), server))
    assert len(records) == 20_000
    assert [percentile(ttft(records), p) for p in (500, 750, 900, 990)] == [
        1 * MS,
        50_001 * MS,
        80_001 * MS,
        98_001 * MS,
    ]


def test_a_stalled_client_shows_only_in_the_headline() -> None:
    """The client's loop freezes for 1 s from t = 0.95 s: what was due then is sent late, and the
    delay is in the latency from the intended time, not in the one from the send."""

    def stall_once(generator: Generator) -> None:
        loop = asyncio.get_running_loop()
        assert hasattr(loop, "stall")
        loop.call_at(0.95, loop.stall, S)

    records, _ = run_virtual(
        lambda clock: run(
            clock, schedule(10, 3), lambda i, now: answer(now + 5 * MS), during=stall_once
        )
    )
    lag = [r.sent_ns - r.intended_ns for r in records if r.sent_ns is not None]
    # Due at 1.0 ... 1.9 s, sent when the loop is back at 1.95 s.
    assert lag[:10] == [0] * 10 and lag[20:] == [0] * 10
    assert lag[10:20] == [1_950 * MS - t * MS for t in range(1_000, 2_000, 100)]
    assert ttft(records) == [late + 5 * MS for late in lag]
    from_sent = [r.first_output_ns - r.sent_ns for r in records]  # type: ignore[operator]
    assert from_sent == [5 * MS] * 30


def test_arrivals_do_not_depend_on_responses() -> None:
    times = schedule(37, 2)
    prompt, quick = run_virtual(lambda c: run(c, times, lambda i, now: answer(now)))
    silent, mute = run_virtual(lambda c: run(c, times, lambda i, now: [], timeout_ns=60 * S))
    assert quick.sent == mute.sent == list(enumerate(times))
    assert {r.outcome for r in prompt} == {Outcome.ok}
    assert {r.outcome for r in silent} == {Outcome.timeout}
    assert [r.closed_ns for r in silent] == [t + 60 * S for t in times]


def test_the_books_balance_under_faults() -> None:
    kinds = [
        Outcome.connection,
        Outcome.truncated,
        Outcome.malformed,
        Outcome.client_error,
    ]

    def server(index: int, now_ns: int) -> list[Step]:
        match index % 7:
            case 0 | 1 | 2:
                return answer(now_ns + (index % 11) * MS)
            case 6:
                return []  # until the timeout
            case k:
                return failure(now_ns + k * MS, kinds[index % len(kinds)])

    def at_once(index: int, now_ns: int) -> list[Step]:
        return server(index, now_ns)

    n = 700
    records, transport = run_virtual(
        lambda c: run(c, schedule(100, 7), at_once, timeout_ns=2 * S, max_in_flight=20)
    )
    outcomes = Counter(r.outcome for r in records)
    sent = n - outcomes[Outcome.dropped]
    assert len(records) == n and [r.index for r in records] == list(range(n))
    assert len(transport.sent) == sent
    assert sent == sum(c for o, c in outcomes.items() if o is not Outcome.dropped)
    assert outcomes[Outcome.dropped] > 0 and outcomes[Outcome.timeout] > 0

    # Little's law, exactly: the integral of requests in flight is the sum of their times.
    spans = [
        (r.sent_ns, r.closed_ns)
        for r in records
        if r.sent_ns is not None and r.closed_ns is not None
    ]
    assert len(spans) == sent
    events = sorted([(a, 1) for a, _ in spans] + [(b, -1) for _, b in spans])
    area, level, before = 0, 0, 0
    for at, step in events:
        area += level * (at - before)
        level, before = level + step, at
    assert level == 0
    assert area == sum(b - a for a, b in spans)


def test_a_cap_drops_and_never_delays() -> None:
    # Each request takes 1 s; 10 a second arrive; 3 may be in flight.
    records, _ = run_virtual(
        lambda c: run(c, schedule(10, 2), lambda i, now: answer(now + S), max_in_flight=3)
    )
    sent = [r.index for r in records if r.outcome is Outcome.ok]
    assert sent == [0, 1, 2, 10, 11, 12]
    assert all(r.sent_ns == r.intended_ns for r in records if r.outcome is Outcome.ok)
    assert all(r.sent_ns is None for r in records if r.outcome is Outcome.dropped)
    assert "--max-in-flight 3" in records[3].message


def test_an_overloaded_single_server() -> None:
    """5/s at 300 ms each: request i waits i * 100 ms, so its TTFT is 300 + 100 i ms."""
    records, _ = run_virtual(lambda c: run(c, schedule(5, 30), FifoServer(300 * MS)))
    assert ttft(records) == [300 * MS + i * 100 * MS for i in range(150)]


def test_two_servers_keep_up() -> None:
    records, _ = run_virtual(lambda c: run(c, schedule(5, 30), FifoServer(300 * MS, width=2)))
    assert ttft(records) == [300 * MS] * 150


def test_tokens_are_stamped_as_they_come() -> None:
    records, _ = run_virtual(
        lambda c: run(c, [0], lambda i, now: answer(now + 200 * MS, tokens=4, gap_ns=10 * MS))
    )
    (record,) = records
    assert record.chunk_ns == [200 * MS, 210 * MS, 220 * MS, 230 * MS]
    assert (record.first_output_ns, record.last_output_ns) == (200 * MS, 230 * MS)
    assert record.answer == "w0 w1 w2 w3 "


def test_a_stop_cuts_off_and_keeps_what_was_seen() -> None:
    def server(index: int, now_ns: int) -> list[Step]:
        if index == 0:
            return answer(now_ns + MS)
        return [
            *answer(now_ns + MS)[:1],
            Step(now_ns + 2 * MS, lambda sink, now: sink.on_body(chunk("half"), now)),
        ]

    def interrupt(generator: Generator) -> None:
        asyncio.get_running_loop().call_at(0.25, generator.stop)

    records, _ = run_virtual(lambda c: run(c, schedule(10, 1), server, during=interrupt))
    assert [r.outcome for r in records] == (
        [Outcome.ok] + [Outcome.cut_off] * 2 + [Outcome.unsent] * 7
    )
    assert records[1].answer == "half" and records[1].first_output_ns == 102 * MS
    assert records[1].closed_ns == 250 * MS


def test_a_timeout_after_output_says_so() -> None:
    def server(index: int, now_ns: int) -> list[Step]:
        return [
            *answer(now_ns)[:1],
            Step(now_ns + MS, lambda sink, now: sink.on_body(chunk("x"), now)),
        ]

    records, _ = run_virtual(lambda c: run(c, [0], server, timeout_ns=3 * S))
    assert records[0].outcome is Outcome.timeout
    assert records[0].message == ("--timeout 3 s passed while waiting for the end of the answer")


@pytest.mark.parametrize(("concurrency", "finish_ms"), [(1, 1000), (4, 300)])
def test_a_closed_loop_keeps_so_many_under_way(concurrency: int, finish_ms: int) -> None:
    """10 requests of 100 ms: one at a time 1 s, four at a time three rounds."""
    records, transport = run_virtual(
        lambda c: run(c, [0] * 10, lambda i, now: answer(now + 100 * MS), concurrency=concurrency)
    )
    assert max(r.closed_ns or 0 for r in records) == finish_ms * MS
    assert all(r.intended_ns == r.sent_ns for r in records)
    assert Counter(at for _, at in transport.sent)[0] == concurrency


def test_a_closed_loop_ends_by_time() -> None:
    records, _ = run_virtual(
        lambda c: run(
            c,
            [0] * 1000,
            lambda i, now: answer(now + 100 * MS),
            concurrency=2,
            stop_after_ns=450 * MS,
        )
    )
    assert [r.outcome for r in records] == [Outcome.ok] * 10


def test_a_stopped_closed_loop_that_is_bounded_by_time_owes_nothing() -> None:
    def interrupt(generator: Generator) -> None:
        asyncio.get_running_loop().call_at(0.25, generator.stop)

    records, _ = run_virtual(
        lambda c: run(
            c,
            [0] * 1000,
            lambda i, now: answer(now + 100 * MS),
            concurrency=1,
            stop_after_ns=30 * S,
            during=interrupt,
        )
    )
    assert [r.outcome for r in records] == [Outcome.ok, Outcome.ok, Outcome.cut_off]


def test_send_times_are_those_of_the_schedule() -> None:
    async def body(clock: VirtualClock) -> list[tuple[int, int]]:
        _, transport = await run(clock, schedule(333, 3), lambda i, now: answer(now))
        return transport.sent

    assert [at for _, at in run_virtual(body)] == [round(i * 1e9 / 333) for i in range(999)]


def test_what_the_server_said_outlives_the_broken_connection() -> None:
    """An error event, then a reset: the cause is told, not the consequence."""
    error = b'data: {"error": {"message": "CUDA error: out of memory"}}\n\n'

    def server(index: int, now_ns: int) -> list[Step]:
        begun = answer(now_ns + MS, tokens=2)[:3]
        said = [Step(now_ns + 2 * MS, lambda sink, now: sink.on_body(error, now))] if index else []
        return [*begun, *said, *failure(now_ns + 3 * MS, Outcome.truncated, "reset")]

    records, _ = run_virtual(lambda clock: run(clock, [0, 10 * MS], server))
    assert [(r.outcome, r.message) for r in records] == [
        (Outcome.truncated, "reset"),
        (Outcome.stream_error, "CUDA error: out of memory"),
    ]
    assert [r.answer for r in records] == ["w0 w1 ", "w0 w1 "]
