"""Makes runs one after another; the one under way can be stopped, and each says how it ended."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from mmload.analysis.summary import Analysis
from mmload.clock import NS_PER_S, MonotonicClock
from mmload.errors import MmloadError
from mmload.run import Options, Run, Watcher
from mmload.scenario import Scenario
from mmload.serving.plan import LOG

Status = Literal["done", "invalid", "failed", "refused"]


class Ran(NamedTuple):
    """How a run ended, and why if it is not done.

    invalid: its load was not the one asked for; refused: the server that was started for it never
    became ready, so it did not take its settings; failed: anything else, with the error.
    """

    status: Status
    reason: str
    elapsed_s: float
    analysis: Analysis | None = None
    error: MmloadError | None = None


class Runner:
    """`make` blocks; `stop` may come from a signal handler."""

    def __init__(self, watcher: Callable[[], Watcher]) -> None:
        self._watcher = watcher
        self._run: Run | None = None
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True
        if self._run is not None:
            self._run.stop()  # raises KeyboardInterrupt where there is no load to end yet

    def make(self, scenario: Scenario, options: Options, folder: Path) -> Ran | None:
        """None when it was stopped: then it is to be done again."""
        placed = scenario.model_copy(update={"out": str(folder)})
        run = self._run = Run(placed, replace(options, html=False), self._watcher())
        start_ns = MonotonicClock.now_ns()
        try:
            _, analysis = run.execute()
        except KeyboardInterrupt:
            self.stopped = True
            return None
        except MmloadError as error:
            refused = run.server is None and (folder / LOG).is_file()
            status: Status = "refused" if refused else "failed"
            return Ran(status, error.message, _since(start_ns), error=error)
        finally:
            self._run = None
        if analysis.summary["interrupted"]:
            self.stopped = True
            return None
        if run.unwritten:
            full = MmloadError(f"not all could be written: {run.unwritten}", "free space there")
            return Ran("failed", full.message, _since(start_ns), error=full)
        if not analysis.summary["valid"]:
            reason = analysis.summary["invalid_reasons"][0]
            return Ran("invalid", reason, _since(start_ns), analysis)
        return Ran("done", "", _since(start_ns), analysis)


def _since(start_ns: int) -> float:
    return round((MonotonicClock.now_ns() - start_ns) / NS_PER_S, 2)


def duration(seconds: float) -> str:
    """Time to wait, as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
