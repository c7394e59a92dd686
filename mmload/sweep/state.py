"""The sweep's folder: `sweep.json` (the plan and how each run ended) and one run folder a run.

    OUT/
      sweep.json                  plan and outcomes, written after every run
      p003-renderer-workers=2/    one folder a point
        r1/ r2/ r3/               its runs, each a run folder like any other
      earlier/                    runs that were interrupted, or INVALID and made once more
      summary.json, report.html, report.md

What is finished stays: a folder that was interrupted is moved aside, never overwritten. A changed
plan in the same folder is refused.
"""

from pathlib import Path
from typing import Final

import msgspec

from mmload import __version__
from mmload.batch import folder
from mmload.batch.runner import Status
from mmload.errors import UsageError
from mmload.sweep.plan import FORMAT, Plan, Work, differences

KIND: Final = folder.Kind("a sweep", "mmload sweep", "sweep.json", FORMAT)
EARLIER: Final = "earlier"
TRIES: Final = 2  # of a run whose measurement turns out INVALID


class Ended(msgspec.Struct, kw_only=True):
    """How one run ended: done, INVALID, failed, or refused by the server; with the reason."""

    point: int
    repeat: int
    status: Status
    reason: str = ""
    elapsed_s: float = 0.0
    tries: int = 1

    @property
    def work(self) -> Work:
        return Work(self.point, self.repeat)


class Saved(msgspec.Struct, kw_only=True):
    """What sweep.json holds."""

    mmload: str = __version__
    started_at: str = ""
    machine: dict[str, object] = {}
    plan: Plan
    ended: list[Ended] = []

    @property
    def format(self) -> int:
        return self.plan.format


class State:
    """A sweep's folder that knows what is done."""

    def __init__(self, path: Path, saved: Saved) -> None:
        self.path = path
        self.saved = saved

    @property
    def plan(self) -> Plan:
        return self.saved.plan

    @classmethod
    def begin(cls, path: Path, saved: Saved) -> "State":
        """A new folder, or the same plan's, resumed. Raises UsageError for any other."""
        if not folder.holds(path, KIND):
            folder.create(path, KIND, saved)
            return cls(path, saved)
        state = cls.load(path)
        if changed := differences(state.plan, saved.plan):
            raise UsageError(
                f"--out {path}: holds a sweep with another plan: {'; '.join(changed)}",
                f"name a new folder, or go on with `mmload sweep --resume {path}`",
            )
        return state

    @classmethod
    def load(cls, path: Path) -> "State":
        return cls(path, folder.load(path, KIND, Saved))

    def save(self) -> None:
        folder.save(self.path, KIND, self.saved)

    def left(self) -> list[Work]:
        """The runs still to do, in the plan's order; INVALID ones once more behind their block."""
        ended = {one.work: one for one in self.saved.ended}
        left = [work for work in self.plan.order() if work not in ended]
        again = [w for w, one in ended.items() if one.status == "invalid" and one.tries < TRIES]
        return sorted([*left, *again], key=lambda work: work.repeat)  # stable: the order stays

    def finish(self, ended: Ended) -> None:
        """Writes down how a run ended, in the place of an earlier try of it."""
        before = next((one for one in self.saved.ended if one.work == ended.work), None)
        if before is not None:
            ended.tries += before.tries
            self.saved.ended.remove(before)
        self.saved.ended.append(ended)
        self.save()

    def forget_failed(self) -> int:
        """Lets runs that were not valid be run again; their folders are moved aside. How many."""
        again = [one for one in self.saved.ended if one.status != "done"]
        self.saved.ended = [one for one in self.saved.ended if one.status == "done"]
        self.save()
        return len(again)

    def folder(self, work: Work) -> Path:
        point = self.plan.points[work.point]
        return self.path / self.plan.design.folder(point) / f"r{work.repeat}"

    def free_folder(self, work: Work) -> Path:
        """The run's folder, free to be made: what an earlier try left there is moved aside."""
        path = self.folder(work)
        # Not beside it: the runs in a point's folder are its repeats.
        folder.make_way(path, self.path / EARLIER / path.parent.name / path.name)
        return path
