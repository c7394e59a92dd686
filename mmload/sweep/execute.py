"""Does the runs of a sweep that are left, one after the other, and writes down how each ended.

A run that fails, or a value that the server refuses, is a result with its reason; the others go on.
An INVALID run, whose load was not the one asked for, is made once more behind its block.
`stop()` ends the run under way, which is then not counted and is made again when the sweep is
resumed. Only a whole block without a single run that worked ends the sweep early.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from mmload.clock import NS_PER_S, MonotonicClock
from mmload.errors import MmloadError, UsageError
from mmload.run import Options, Run, Watcher
from mmload.scenario import Scenario
from mmload.serving.plan import LOG
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
        self._watcher = watcher
        self._say = say
        self._run: Run | None = None
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True
        if self._run is not None:
            self._run.stop()  # raises KeyboardInterrupt where there is no load to end yet

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
        state = self._state
        folder = state.free_folder(work)
        start_ns = MonotonicClock.now_ns()

        def ended(status: Any, reason: str = "") -> Ended:
            elapsed_s = (MonotonicClock.now_ns() - start_ns) / NS_PER_S
            return Ended(
                point=work.point,
                repeat=work.repeat,
                status=status,
                reason=reason,
                elapsed_s=round(elapsed_s, 2),
            )

        try:
            server = server_plan(state.plan, state.plan.points[work.point])
        except UsageError as error:
            return ended("refused", error.message)
        asked = state.plan.scenarios[work.point] | {"out": str(folder)}
        scenario = Scenario.model_validate(asked)
        run = Run(scenario, replace(self._options, server=server, html=False), self._watcher())
        self._run = run
        try:
            _, analysis = run.execute()
        except KeyboardInterrupt:
            self.stopped = True
            return None
        except MmloadError as error:
            # A server that was started and never became ready did not take its settings.
            refused = run.server is None and (folder / LOG).is_file()
            return ended("refused" if refused else "failed", error.message)
        finally:
            self._run = None
        if analysis.summary["interrupted"]:
            self.stopped = True
            return None
        if run.unwritten:
            return ended("failed", f"not all could be written: {run.unwritten}")
        if not analysis.summary["valid"]:
            return ended("invalid", analysis.summary["invalid_reasons"][0])
        return ended("done")


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


def duration(seconds: float) -> str:
    """Time to wait, as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
