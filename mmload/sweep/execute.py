"""Does the runs of a sweep that are left, one after the other, and writes down how each ended.

A run that fails, or a value that the server refuses, is a result with its reason; the others go on.
An INVALID run, whose load was not the one asked for, is made once more behind its block.
`stop()` ends the run under way, which is then not counted and is made again when the sweep is
resumed. Only a whole block without a single run that worked ends the sweep early.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mmload.batch.runner import Ran, Runner, duration
from mmload.errors import UsageError
from mmload.run import Options, Watcher
from mmload.scenario import Scenario
from mmload.sweep.plan import Work, estimate
from mmload.sweep.servers import server_plan
from mmload.sweep.state import Ended, State

FEW: Final = 3  # runs after which the time that is left is told from what they took


class Execution:
    """The runs of one sweep. `run()` blocks; `stop()` may come from a signal handler."""

    def __init__(
        self,
        state: State,
        options: Options,
        say: Callable[[str], None],
        watcher: Callable[[], Watcher],
    ) -> None:
        self._state = state
        self._options = options
        self._runner = Runner(watcher)
        self._say = say

    def stop(self) -> None:
        self._runner.stop()

    @property
    def stopped(self) -> bool:
        return self._runner.stopped

    def run(self) -> None:
        """All runs that are left, until one is stopped."""
        state = self._state
        total = len(state.plan.points) * state.plan.repeats
        while (left := state.left()) and not self.stopped:
            work = left[0]
            statuses = {one.status for one in state.saved.ended}
            if work.repeat > 1 and not statuses & {"done", "invalid"}:
                self._say("no run of the first block worked: the sweep ends here")
                return
            self._say(self._announcement(work, total - len(left) + 1, total, left))
            ended = self._one(work)
            if ended is not None:
                state.finish(ended)
                if ended.status != "done":
                    self._say(f"{ended.status}: {ended.reason}")

    def _announcement(self, work: Work, number: int, total: int, left: list[Work]) -> str:
        plan = self._state.plan
        point = plan.points[work.point]
        about = estimate(plan, left, overhead_s(self._state))
        more = "" if about.known else " or more"
        again = ", once more" if any(one.work == work for one in self._state.saved.ended) else ""
        return (
            f"run {number} of {total}: {plan.design.label(point)}, repeat {work.repeat}{again};"
            f" about {duration(about.seconds)}{more} to go"
        )

    def _one(self, work: Work) -> Ended | None:
        """None when it was stopped: then it is to be done again."""
        plan = self._state.plan
        ran: Ran | None
        try:
            server = server_plan(plan, plan.points[work.point])
        except UsageError as error:
            ran = Ran("refused", error.message, 0.0)
        else:
            scenario = Scenario.model_validate(plan.scenarios[work.point])
            options = replace(self._options, server=server)
            ran = self._runner.make(scenario, options, self._state.free_folder(work))
        if ran is None:
            return None
        return Ended(
            point=work.point,
            repeat=work.repeat,
            status=ran.status,
            reason=ran.reason,
            elapsed_s=ran.elapsed_s,
        )


def overhead_s(state: State) -> float | None:
    """Seconds that a run took beside its schedule so far, on average; None: too few have ended."""
    plan = state.plan
    beside = [
        one.elapsed_s - length
        for one in state.saved.ended
        if one.status == "done" and (length := plan.schedule_s(one.point)) is not None
    ]
    enough = len(beside) >= min(FEW, len(plan.points))
    return max(0.0, sum(beside) / len(beside)) if beside and enough else None
