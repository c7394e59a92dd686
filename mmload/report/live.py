"""How a run goes, while it goes: a live display on a terminal, plain lines elsewhere, or nothing.

Runs in the parent process, which sends no load: drawing costs the generator nothing. Figures are
those of the last few seconds and say so; the report has the exact ones. A terminal that has been
closed, or a pipe that nobody reads any more, does not end what is being watched.
"""

import contextlib
import sys
from collections import deque
from typing import TYPE_CHECKING, Final, TextIO

from mmload.clock import NS_PER_MS, NS_PER_S, MonotonicClock
from mmload.load.workers import Tick

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

WINDOW: Final = 500  # newest latencies that the rolling percentiles are over
PLAIN_EVERY_S: Final = 5
TREND_EVERY_S: Final = 1
TREND_POINTS: Final = 30


class Quiet:
    """Says nothing."""

    def say(self, text: str) -> None: ...

    def started(self, planned: int, schedule_s: float) -> None: ...

    def tick(self, tick: Tick) -> None: ...

    def refresh(self) -> None: ...


class Progress:
    """Keeps the figures; a subclass shows them."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self._ticks: dict[int, Tick] = {}
        self._ttft_ns: deque[int] = deque(maxlen=WINDOW)
        self._lag_ns: deque[int] = deque(maxlen=WINDOW)
        self._in_flight: deque[int] = deque(maxlen=TREND_POINTS)
        self._planned = 0
        self._schedule_s = 0.0
        self._start_ns = 0
        self._shown_ns = 0
        self._trend_ns = 0

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            print(f"mmload: {text}", file=self.out, flush=True)

    def started(self, planned: int, schedule_s: float) -> None:
        self._planned, self._schedule_s = planned, schedule_s
        self._start_ns = self._shown_ns = MonotonicClock.now_ns()

    def tick(self, tick: Tick) -> None:
        self._ticks[tick.worker] = tick
        self._ttft_ns.extend(tick.ttft_ns)
        self._lag_ns.extend(tick.lag_ns)
        now_ns = MonotonicClock.now_ns()
        if now_ns - self._trend_ns >= TREND_EVERY_S * NS_PER_S:
            self._trend_ns = now_ns
            self._in_flight.append(self.total("in_flight"))

    def refresh(self) -> None:
        now_ns = MonotonicClock.now_ns()
        if now_ns - self._shown_ns >= PLAIN_EVERY_S * NS_PER_S:
            self._shown_ns = now_ns
            self.say(", ".join(f"{name} {value}" for name, value in self.figures()))

    def total(self, name: str) -> int:
        return sum(getattr(tick.tally, name) for tick in self._ticks.values())

    def elapsed_s(self) -> float:
        return (MonotonicClock.now_ns() - self._start_ns) / NS_PER_S

    def figures(self) -> list[tuple[str, str]]:
        """Name and value of each figure, in the order to show them."""
        sent, failed, dropped = self.total("sent"), self.total("failed"), self.total("dropped")
        of = f" of {self._planned}" if self._planned else ""
        left_s = self._schedule_s - self.elapsed_s()
        figures = [
            ("elapsed", f"{self.elapsed_s():.0f} s"),
            ("left", f"{left_s:.0f} s" if left_s > 0 else "waiting for the last answers"),
            ("sent", f"{sent}{of}"),
            ("in flight", f"{self.total('in_flight')} ({self._trend()})"),
            ("ok", str(self.total("ok"))),
            ("failed", str(failed)),
        ]
        if dropped:
            figures.append(("dropped", str(dropped)))
        figures.append(("TTFT p50/p90/p99", _percentiles(self._ttft_ns)))
        figures.append(("lag p50/p90/p99", _percentiles(self._lag_ns)))
        return figures

    def _trend(self) -> str:
        """The backlog's direction: the newer half against the older one."""
        points = list(self._in_flight)
        half = len(points) // 2
        if half < 3:
            return "..."
        change = sum(points[-half:]) / half - sum(points[:half]) / half
        if abs(change) <= max(1.0, 0.1 * sum(points) / len(points)):
            return "steady"
        return "rising" if change > 0 else "falling"


class LiveView(Progress):
    """The same figures in place, redrawn a few times a second."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._live: Live | None = None

    def say(self, text: str) -> None:
        live, self._live = self._live, None
        if live is not None:
            with contextlib.suppress(OSError):
                live.stop()
        super().say(text)

    def started(self, planned: int, schedule_s: float) -> None:
        super().started(planned, schedule_s)
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self.out, highlight=False)
        self._live = Live(
            self._table(), console=console, auto_refresh=False, transient=True, screen=False
        )
        with contextlib.suppress(OSError):
            self._live.start()

    def refresh(self) -> None:
        if self._live is not None:
            try:
                self._live.update(self._table(), refresh=True)
            except OSError:  # nobody looks any more, and what is not written would pile up
                self._live = None

    def _table(self) -> "RenderableType":
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", style="dim")
        table.add_column()
        for name, value in self.figures():
            table.add_row(name, value)
        return table


def watcher(*, quiet: bool, out: TextIO | None = None) -> Quiet | Progress:
    """Who watches: on standard error, so that standard output holds the report alone."""
    out = sys.stderr if out is None else out
    if quiet:
        return Quiet()
    return LiveView(out) if out.isatty() else Progress(out)


def _percentiles(values_ns: deque[int]) -> str:
    if not values_ns:
        return "-"
    ordered = sorted(values_ns)
    n = len(ordered)
    ranks = [max(1, -(-n * p // 100)) for p in (50, 90, 99)]
    found_ms = [ordered[rank - 1] / NS_PER_MS for rank in ranks]
    texts = [f"{ms:.0f}" if ms >= 10 else f"{ms:.1f}" for ms in found_ms]
    return f"{'/'.join(texts)} ms (last {n})"
