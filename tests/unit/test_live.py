"""What the live view says: the newest figures of all workers, and the backlog's direction."""

import io

import pytest

from mmload.clock import NS_PER_MS
from mmload.load.generator import Tally
from mmload.load.workers import Tick
from mmload.report.live import LiveView, Progress, Quiet, watcher


def tick(worker: int, **changed: int) -> Tick:
    return Tick(worker, Tally(**changed))


def test_figures_of_several_workers_add_up() -> None:
    view = Progress(io.StringIO())
    view.started(100, 30.0)
    view.tick(tick(0, sent=10, ok=6, failed=1, in_flight=3))
    view.tick(tick(1, sent=12, ok=9, failed=0, in_flight=3))
    view.tick(tick(0, sent=20, ok=15, failed=2, in_flight=3))  # running counts replace the former
    figures = dict(view.figures())
    assert figures["sent"] == "32 of 100"
    assert (figures["ok"], figures["failed"]) == ("24", "2")
    assert figures["in flight"].startswith("6 ")
    assert "dropped" not in figures


def test_rolling_percentiles_are_nearest_rank_over_the_newest() -> None:
    view = Progress(io.StringIO())
    view.started(1000, 30.0)
    one = tick(0)
    one.ttft_ns = [k * NS_PER_MS for k in range(1, 601)]  # 101 ... 600 ms remain
    one.lag_ns = [NS_PER_MS // 4]
    view.tick(one)
    figures = dict(view.figures())
    assert figures["TTFT p50/p90/p99"] == "350/550/595 ms (last 500)"
    assert figures["lag p50/p90/p99"] == "0.2/0.2/0.2 ms (last 1)"


@pytest.mark.parametrize(
    ("levels", "word"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], "rising"),
        ([8, 7, 6, 5, 4, 3, 2, 1], "falling"),
        ([5, 5, 6, 5, 5, 6, 5, 5], "steady"),
        ([5, 9], "..."),
    ],
)
def test_the_trend_of_the_backlog(levels: list[int], word: str) -> None:
    view = Progress(io.StringIO())
    view._in_flight.extend(levels)
    assert view._trend() == word


def test_who_watches() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert type(watcher(quiet=True)) is Quiet
    assert type(watcher(quiet=False, out=io.StringIO())) is Progress
    assert type(watcher(quiet=False, out=Terminal())) is LiveView


def test_plain_lines_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    view = Progress(out)
    view.say("preparing media")
    view.started(10, 1.0)
    view.refresh()  # too early for a line
    assert out.getvalue() == "mmload: preparing media\n"
