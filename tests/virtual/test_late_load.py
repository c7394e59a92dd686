"""A late generator says so: an injected stall, its lag to the nanosecond, and the verdict."""

import asyncio

from mmload.analysis.summary import summarise
from mmload.load.generator import Generator
from mmload.load.schedule import arrivals, even
from mmload.records import RecordTable
from mmload.rundir import RunEnd
from tests.unit.analysis_samples import manifest
from tests.virtual.loop import run_virtual
from tests.virtual.scripted import MS, S, answer, run


def test_a_stalled_loop_makes_the_run_invalid_in_these_words() -> None:
    """10/s for 40 s; the loop freezes from 0.95 to 1.95 s, so ten requests are sent then: they are
    950, 850 ... 50 ms late. The 396th of 400 lags, in order, is the sixth of them: 550 ms."""

    def stall_once(generator: Generator) -> None:
        loop = asyncio.get_running_loop()
        assert hasattr(loop, "stall")
        loop.call_at(0.95, loop.stall, S)

    times = [int(t) for t in arrivals(even(), 10, duration_s=40)]
    records, _ = run_virtual(
        lambda clock: run(clock, times, lambda i, now: answer(now + 5 * MS), during=stall_once)
    )
    lags = sorted(r.sent_ns - r.intended_ns for r in records if r.sent_ns is not None)
    assert lags == [0] * 390 + [k * MS for k in range(50, 1_000, 100)]

    asked = manifest(planned=400, asked_qps=10.0, schedule_s=40.0)
    summary = summarise(asked, RunEnd(ended_ns=41 * S), RecordTable.of(records), [], []).summary
    assert summary["lag_ms"]["p99"] == 550.0 and summary["lag_ms"]["max"] == 950.0
    assert summary["valid"] is False
    assert summary["invalid_reasons"] == [
        "The generator sent late: lag p99 is 550.0 ms, the limit is 25.0 ms. Its machine was too"
        " busy or the bodies too large for its network: lower the rate, add --workers, or move the"
        " generator off the server's cores."
    ]
    # The headline has the stall in it, the latency from the send has not.
    assert summary["ttft_ms"]["max"] == 955.0
    assert summary["ttft_from_sent_ms"]["max"] == 5.0
