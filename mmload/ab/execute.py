"""Does the runs of an A/B that are left, each with a fresh server, and writes down how each ended.

A run that fails is reported and the others go on; an INVALID one, whose load was not the one asked
for, is made once more at the end. `stop()` ends the run under way, which then does not count.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from mmload.ab.sides import LABELS, Side, Work
from mmload.ab.state import Ended, State
from mmload.batch.runner import Runner, duration
from mmload.errors import MmloadError
from mmload.load import prepare
from mmload.run import Options, Watcher
from mmload.scenario import Scenario
from mmload.serving import CommandPlan, ServerPlan
from mmload.sweep.plan import COMMAND_OVERHEAD_S, EMBEDDED_OVERHEAD_S

URL_OVERHEAD_S: Final = 2.0
TRIES: Final = 2  # of a run that turns out INVALID


class Execution:
    """The runs of one A/B. `run()` blocks; `stop()` may come from a signal handler."""

    def __init__(
        self,
        state: State,
        scenario: Scenario,
        sides: Mapping[str, Side],
        options: Options,
        say: Callable[[str], None],
        watcher: Callable[[], Watcher],
    ) -> None:
        self._state = state
        self._scenario = scenario
        self._sides = sides
        self._options = options
        self._say = say
        self._runner = Runner(watcher)
        self._tries: Counter[Work] = Counter()
        self._outcomes: Counter[tuple[str, str]] = Counter()  # side and status, by now
        self._schedule_s = prepare.schedule(scenario).schedule_s

    def stop(self) -> None:
        self._runner.stop()

    @property
    def stopped(self) -> bool:
        return self._runner.stopped

    def run(self) -> None:
        """All runs that are left, until one is stopped. Raises MmloadError if the first of both
        sides fail: the others would, too."""
        while not self.stopped and (left := self.left()):
            self._say(self._announcement(left))
            ended = self._one(left[0])
            if ended is None:
                return
            self._state.finish(ended)
            if ended.status != "done":
                self._say(f"{ended.label} {ended.repeat:02d}: {ended.status}: {ended.reason}")
            self._outcomes[ended.label, ended.status] += 1
            if set(self._outcomes) == {(label, "failed") for label in LABELS}:
                raise MmloadError(f"neither side works: {ended.reason}", "make one run work first")

    def left(self) -> list[Work]:
        """Not done and not tried by now, in order; behind them INVALID ones, to try again."""
        done = set(self._state.done())
        invalid = {one.work for one in self._state.saved.ended if one.status == "invalid"}
        works = [work for work in self._state.order if work not in done]
        first = [work for work in works if not self._tries[work]]
        return first + [w for w in works if 0 < self._tries[w] < TRIES and w in invalid]

    def estimate(self) -> str:
        """Time that the runs which are left will take, in words."""
        took = [one.elapsed_s for one in self._state.saved.ended if one.status == "done"]
        if took:
            return f"about {duration(len(self.left()) * sum(took) / len(took))}"
        plans = [self._sides[work.label].plan for work in self.left()]
        seconds = sum(self._schedule_s + overhead_s(plan) for plan in plans)
        sure = self._schedule_s and not any(isinstance(plan, CommandPlan) for plan in plans)
        return f"about {duration(seconds)}{'' if sure else ' or more'}"

    def _announcement(self, left: list[Work]) -> str:
        order, work = self._state.order, left[0]
        again = " once more" if self._tries[work] else ""
        return (
            f"run {order.index(work) + 1} of {len(order)}: {work.label} {work.repeat:02d}{again};"
            f" {self.estimate()} to go"
        )

    def _one(self, work: Work) -> Ended | None:
        """None when it was stopped: then it is to be done again."""
        self._tries[work] += 1
        side = self._sides[work.label]
        scenario = self._scenario.model_copy(update={"url": side.url})
        options = replace(self._options, server=side.plan)
        ran = self._runner.make(scenario, options, self._state.free_folder(work))
        if ran is None:
            return None
        return Ended(
            label=work.label,
            repeat=work.repeat,
            status="failed" if ran.status == "refused" else ran.status,
            reason=ran.reason,
            elapsed_s=ran.elapsed_s,
        )


def overhead_s(plan: ServerPlan | None) -> float:
    """What a run takes beside its schedule, until the first has shown it; a guess."""
    if plan is None:
        return URL_OVERHEAD_S
    return COMMAND_OVERHEAD_S if isinstance(plan, CommandPlan) else EMBEDDED_OVERHEAD_S
