"""Runs a capacity search: one server stays up, each rate is a run, `search` says which is next.

Between rates the server has to be empty again. A run waits for all of its answers, so that nothing
of it is in flight when it ends; where requests timed out or were cut off, the server may still work
on them, and one request at a time is sent until one takes no longer than twice what the first ones
took (or `COOL_S` is over, which is said).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from mmload.analysis.summary import Analysis
from mmload.batch.runner import Runner
from mmload.capacity.judge import Rate, judge
from mmload.capacity.search import PILOT, Done, Rule, decide
from mmload.capacity.state import Asked, Ran, free_folder, save
from mmload.clock import NS_PER_S, MonotonicClock, pause
from mmload.errors import MmloadError
from mmload.records import RecordTable
from mmload.run import Options, Watcher
from mmload.rundir import RunDir
from mmload.scenario import Scenario
from mmload.slo import Slo

PILOT_REQUESTS: Final = 8
START_SHARE: Final = 0.5
COOL_S: Final = 120.0
COOL_TIMES: Final = 2.0  # of the lowest TTFT p50 seen
COOL_REQUESTS: Final = 3
LINGERING: Final = ("timeout", "cut_off", "connection")  # outcomes that may leave work behind


@dataclass(frozen=True)
class Budget:
    """What the search may use; None: no limit."""

    requests: int | None = None
    seconds: float | None = None


class Search:
    """One search. `run()` blocks; `stop()` may come from a signal handler."""

    def __init__(
        self,
        path: Path,
        asked: Asked,
        rates: list[Rate],
        slos: tuple[Slo, ...],
        rule: Rule,
        budget: Budget,
        options: Options,
        url: str | None,
        say: Callable[[str], None],
        watcher: Callable[[], Watcher],
    ) -> None:
        self._path, self._asked, self._slos = path, asked, slos
        self._rule, self._budget, self._options = rule, budget, options
        self._say, self._runner = say, Runner(watcher)
        # Not in `asked`, which is written down: it may hold a password.
        self._to = {} if url is None else {"url": url}
        self.rates = rates  # of an interrupted search: what is done of it
        self._number = len(rates)

    def stop(self) -> None:
        self._runner.stop()

    @property
    def stopped(self) -> bool:
        return self._runner.stopped

    def pilot(self) -> float | None:
        """A rate to start from, out of a few requests one at a time: half of the capacity that
        their spans imply, or without spans half of one over their TTFT. None when stopped."""
        self._say(f"pilot: {PILOT_REQUESTS} requests one at a time")
        done = self._load("pilot", {"sequential": True, "requests": PILOT_REQUESTS})
        if done is None:
            return None
        summary = done[1].summary
        ttft = summary.get("ttft_ms")
        if not summary["valid"] or ttft is None:
            raise MmloadError(
                f"the pilot is not VALID: {(summary['invalid_reasons'] or ['no answers'])[0]}",
                "give a rate to start from with --start",
            )
        capacity = (summary.get("bottleneck") or {}).get("capacity_qps")
        return float(f"{START_SHARE * (capacity or 1000 / ttft['p50']):.2g}")

    def run(self) -> None:
        """Until the search is done, its budget is used up, or it is stopped."""
        start_ns = MonotonicClock.now_ns()
        if self._rule.start == PILOT:
            start = self.pilot()
            if start is None:
                self._end("interrupted")
                return
            self._rule = replace(self._rule, start=start)
            self._asked.start = start
        sent = 0
        while not self.stopped:
            step = decide([one.trial for one in self.rates], self._rule)
            if isinstance(step, Done):
                self._end(step.why)
                return
            requests = self._requests(step.rate)
            spent_s = (MonotonicClock.now_ns() - start_ns) / NS_PER_S
            if self._budget.requests is not None and sent + requests > self._budget.requests:
                self._end("max_requests")
                return
            if self._budget.seconds is not None and (
                spent_s + requests / step.rate > self._budget.seconds
            ):
                self._end("time_budget")
                return
            seconds = requests / step.rate
            self._say(f"{step.why}: {step.rate:g} requests/s, {requests} requests, {seconds:.0f} s")
            done = self._one(step.rate, step.why, requests)
            if done is None:
                break
            self.rates.append(done)
            sent += requests
            self._say(f"{step.rate:g}/s: {in_words(done)}")
            self._cool_down(done)
        self._end("interrupted")

    def _end(self, why: str) -> None:
        self._asked.ended = why
        save(self._path, self._asked)

    def _requests(self, rate: float) -> int:
        """Enough to judge the queue and the percentiles, and for no shorter than a least time."""
        return max(self._asked.requests_a_rate, round(rate * self._asked.least_s))

    def _one(self, rate: float, why: str, requests: int) -> Rate | None:
        self._number += 1
        name = f"r{self._number:03d}-{rate:g}qps"
        done = self._load(name, {"qps": rate, "requests": requests})
        if done is None:
            return None
        table, analysis = done
        self._asked.ran.append(Ran(rate=rate, why=why, folder=name))
        save(self._path, self._asked)
        return judge(rate, why, name, table, analysis.summary, self._slos)

    def _load(self, name: str, how: dict[str, Any]) -> tuple[RecordTable, Analysis] | None:
        """One run against the server that stays up; None when it was interrupted. Raises
        MmloadError where it failed."""
        scenario = Scenario.model_validate(self._asked.scenario | self._to | how)
        folder = free_folder(self._path, name)
        ran = self._runner.make(scenario, self._options, folder)
        if ran is None:
            return None
        if ran.error is not None:
            raise ran.error
        assert ran.analysis is not None
        return RecordTable.of(RunDir(folder).records()), ran.analysis

    def _cool_down(self, done: Rate) -> None:
        """Waits until the server has nothing left of the last rate to do."""
        failed = done.summary.get("failed") or {}
        if not any(failed.get(kind) for kind in LINGERING) or self.stopped:
            return
        calm_ms = min(
            (ms for one in self.rates if (ms := one.ms("ttft", "p50")) is not None), default=None
        )
        self._say("cooling down: the server may still work on requests that were given up")
        deadline_ns = MonotonicClock.now_ns() + round(COOL_S * NS_PER_S)
        tries = 0
        while MonotonicClock.now_ns() < deadline_ns and not self.stopped:
            tries += 1
            name = f"cool{self._number:03d}-{tries}"
            how = {"sequential": True, "requests": COOL_REQUESTS, "warmup": 0}
            found = self._load(name, how)
            p50 = (found[1].summary.get("ttft_ms") or {}).get("p50") if found else None
            if p50 is not None and (calm_ms is None or p50 <= COOL_TIMES * calm_ms):
                return
            pause(1.0)
        self._say(f"the server was still slow {COOL_S:.0f} s later; the next rate may suffer")


def in_words(one: Rate) -> str:
    """The verdict on a run, a line for the progress."""
    word = {"pass": "passes", "unsure": "unsure", "fail": "fails", "invalid": "INVALID"}[
        one.verdict
    ]
    why = f": {'; '.join(one.reasons)}" if one.reasons else ""
    return f"{word}, {one.good_share:.0%} of requests good{why}"


def read(path: Path, asked: Asked, slos: tuple[Slo, ...]) -> list[Rate]:
    """The runs of a finished search again, from their folders."""
    from mmload.report.files import analyse

    found = []
    for ran in asked.ran:
        folder = RunDir(path / ran.folder)
        table = RecordTable.of(folder.records())
        found.append(judge(ran.rate, ran.why, ran.folder, table, analyse(folder).summary, slos))
    return found
