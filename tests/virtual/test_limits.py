"""Time limits and retries on virtual time: every instant here is worked out by hand."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mmload.load.generator import Generator
from mmload.load.limits import Limits
from mmload.load.payloads import Piece
from mmload.load.transport import Sink
from mmload.records import Attempt, Outcome, Record
from tests.virtual.loop import VirtualClock, run_virtual
from tests.virtual.scripted import MS, SSE_HEAD, STOP, S, ScriptedJob, chunk

At = tuple[int, Callable[[Sink, int], None]]  # after the send, do this to the sink


def connected(sink: Sink, now: int) -> None:
    sink.on_connected(now, False)


def written(sink: Sink, now: int) -> None:
    sink.on_written(now)


def begun(sink: Sink, now: int) -> None:
    sink.on_head(200, SSE_HEAD, now)


def token(sink: Sink, now: int) -> None:
    sink.on_body(chunk("x"), now)


def done(sink: Sink, now: int) -> None:
    sink.on_body(STOP, now)
    sink.on_end(now)


def refused(sink: Sink, now: int) -> None:
    sink.on_failure(Outcome.connection, "connect: Connection refused", now)


def status(code: int, **headers: str) -> Callable[[Sink, int], None]:
    def act(sink: Sink, now: int) -> None:
        named = {k.replace("_", "-").encode(): v.encode() for k, v in headers.items()}
        sink.on_connected(now, False)
        sink.on_written(now)
        sink.on_head(code, named, now)
        sink.on_body(b'{"error": {"message": "busy"}}', now)
        sink.on_end(now)

    return act


GOOD: list[At] = [
    *((10 * MS, connected), (10 * MS, written), (20 * MS, begun), (30 * MS, token)),
    (40 * MS, done),
]


class Script:
    """A transport that plays one list of steps an attempt, and keeps what was sent and when."""

    def __init__(self, clock: VirtualClock, *attempts: Sequence[At]) -> None:
        self.clock = clock
        self.attempts = list(attempts)
        self.sent: list[tuple[int, bytes, list[bytes]]] = []
        self.cancelled = 0

    def send(self, head: bytes, pieces: Sequence[Piece], sink: Sink) -> Any:
        steps = self.attempts[len(self.sent)]
        now_ns = self.clock.now_ns()
        self.sent.append((now_ns, head, [bytes(p) for p in pieces]))
        loop = self.clock.loop

        def play(act: Callable[[Sink, int], None]) -> None:
            act(sink, round(loop.time() * S))

        timers = [loop.call_at((now_ns + after) / S, play, act) for after, act in steps]
        script = self

        class Exchange:
            def cancel(self) -> None:
                script.cancelled += 1
                for timer in timers:
                    timer.cancel()

        return Exchange()

    async def close(self) -> None: ...


def one(
    limits: Limits, *attempts: Sequence[At], stop_at: float | None = None
) -> tuple[Record, Script]:
    async def body(clock: VirtualClock) -> tuple[Record, Script]:
        records: list[Record] = []
        script = Script(clock, *attempts)
        generator = Generator(
            ScriptedJob([0]), script, clock, clock.now_ns(), limits, records.append
        )
        if stop_at is not None:
            clock.loop.call_at(stop_at, generator.stop)
        await generator.run()
        (record,) = records
        assert generator.tally.in_flight == 0 and generator.tally.sent == 1
        return record, script

    return run_virtual(body)


def limits(**given: int) -> Limits:
    return Limits(
        timeout_ns=given.pop("timeout", 60 * S),
        connect_timeout_ns=given.pop("connect", 5 * S),
        first_token_timeout_ns=given.pop("first", 20 * S),
        **given,
    )


@pytest.mark.parametrize(
    ("steps", "at_s", "message"),
    [
        ([], 5, "--connect-timeout 5 s passed while connecting"),
        (GOOD[:1], 20, "--first-token-timeout 20 s passed while sending the request"),
        (GOOD[:2], 20, "--first-token-timeout 20 s passed while waiting for the response head"),
        (GOOD[:3], 20, "--first-token-timeout 20 s passed while waiting for output"),
        (GOOD[:4], 60, "--timeout 60 s passed while waiting for the end of the answer"),
    ],
    ids=["connecting", "sending", "head", "output", "end"],
)
def test_each_limit_says_which_it_was_and_at_what_stage(
    steps: list[At], at_s: int, message: str
) -> None:
    record, script = one(limits(), steps)
    assert (record.outcome, record.message) == (Outcome.timeout, message)
    assert record.closed_ns == at_s * S
    assert script.cancelled == 1


def test_without_the_special_limits_the_total_one_names_the_stage() -> None:
    plain = Limits(timeout_ns=7 * S)
    for steps, stage in (([], "connecting"), (GOOD[:3], "waiting for output")):
        record, _ = one(plain, steps)
        assert record.message == f"--timeout 7 s passed while {stage}"
        assert record.closed_ns == 7 * S


def test_a_request_within_its_limits_is_left_alone() -> None:
    late: list[At] = [(4 * S, connected), (4 * S, written), (19 * S, begun), (19 * S, token)]
    record, _ = one(limits(), [*late, (59 * S, done)])
    assert record.outcome is Outcome.ok and record.closed_ns == 59 * S


def test_503_then_200_without_retries_is_a_failure() -> None:
    record, script = one(limits(), [(10 * MS, status(503, retry_after="2"))], GOOD)
    assert len(script.sent) == 1
    assert (record.outcome, record.status) == (Outcome.http_error, 503)
    assert record.message == "HTTP 503: busy" and record.attempts == []


def test_503_with_retry_after_then_200_counts_the_wait() -> None:
    record, script = one(limits(retries=1), [(10 * MS, status(503, retry_after="2"))], GOOD)
    assert [at for at, _, _ in script.sent] == [0, 2_010 * MS]
    assert script.sent[0][1:] == script.sent[1][1:]  # the same bytes
    assert record.outcome is Outcome.ok and record.status == 200
    assert (record.sent_ns, record.connected_ns) == (0, 2_020 * MS)
    assert (record.first_output_ns, record.closed_ns) == (2_040 * MS, 2_050 * MS)
    assert record.chunk_ns == [2_040 * MS] and record.answer == "x"
    assert record.attempts == [
        Attempt(
            sent_ns=0,
            closed_ns=10 * MS,
            outcome=Outcome.http_error,
            status=503,
            message="HTTP 503: busy",
        ),
        Attempt(sent_ns=2_010 * MS, closed_ns=2_050 * MS, outcome=Outcome.ok, status=200),
    ]


def test_waits_double_and_the_last_failure_stands() -> None:
    """0.5, 1, 2 s between attempts that fail after 100 ms each."""
    record, script = one(limits(retries=3), *[[(100 * MS, refused)]] * 4)
    assert [at for at, _, _ in script.sent] == [0, 600 * MS, 1_700 * MS, 3_800 * MS]
    assert record.outcome is Outcome.connection and record.closed_ns == 3_900 * MS
    assert [a.outcome for a in record.attempts] == [Outcome.connection] * 4
    assert record.sent_ns == 0


def test_a_connect_timeout_is_an_attempt() -> None:
    record, script = one(limits(retries=1), [], GOOD)
    assert [at for at, _, _ in script.sent] == [0, 5_500 * MS]
    assert record.outcome is Outcome.ok
    assert record.attempts[0].outcome is Outcome.timeout


def test_no_retry_that_would_begin_after_a_limit() -> None:
    """The server asks for 30 s, output has to begin within 20."""
    record, script = one(limits(retries=5), [(S, status(429, retry_after="30"))])
    assert len(script.sent) == 1
    assert record.outcome is Outcome.http_error and record.closed_ns == S


@pytest.mark.parametrize(
    "steps",
    [
        [(MS, status(400))],
        [(MS, status(401))],
        [(MS, lambda sink, now: sink.on_failure(Outcome.client_error, "EMFILE", now))],
        [(MS, lambda sink, now: sink.on_failure(Outcome.malformed, "SSH", now))],
        [*GOOD[:4], (S, lambda sink, now: sink.on_failure(Outcome.truncated, "reset", now))],
        [*GOOD[:3], (S, lambda sink, now: sink.on_end(now))],
        GOOD[:3],  # no output in time
    ],
    ids=["400", "401", "no-files", "malformed", "truncated", "no-end", "timeout"],
)
def test_what_is_not_sent_again(steps: list[At]) -> None:
    record, script = one(limits(retries=5), steps)
    assert len(script.sent) == 1 and record.attempts == []
    assert record.outcome is not Outcome.ok


def test_a_stop_between_attempts_ends_the_request() -> None:
    record, script = one(limits(retries=5), [(MS, status(500))], stop_at=0.3)
    assert len(script.sent) == 1
    assert record.outcome is Outcome.cut_off and record.closed_ns == 300 * MS
    assert record.message.endswith("before a retry")
    assert [a.status for a in record.attempts] == [500]
