"""The folder of an A/B: `ab.json` beside the run folders of both sides.

    OUT/
      ab.json             the load, both servers, the seed and the order; how each run ended
      before/01 ... 05    run folders like any other
      after/01 ... 05
      aside/              runs that failed, were INVALID or interrupted, and were made again
      compare.html, .md, .json

What is done stays. The same command goes on where it was; another one is refused, but for more
repeats, which are added.
"""

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from mmload import __version__
from mmload.ab.sides import Work, order
from mmload.batch import folder
from mmload.errors import UsageError

FORMAT: Final = 1
KIND: Final = folder.Kind("an A/B", "mmload ab", "ab.json", FORMAT)
RULE: Final = (
    "of each two pairs the order within the first is drawn by the seed, and the second is its"
    " mirror image"
)
Status = Literal["done", "invalid", "failed"]


class Ended(msgspec.Struct, kw_only=True):
    """How a run ended, and why if it is not done."""

    label: str
    repeat: int
    status: Status
    reason: str = ""
    elapsed_s: float = 0.0

    @property
    def work(self) -> Work:
        return Work(self.label, self.repeat)


class Saved(msgspec.Struct, kw_only=True):
    """What ab.json holds."""

    format: int = FORMAT
    mmload: str = __version__
    started_at: str
    machine: dict[str, Any] = {}
    order_rule: str = RULE
    order_seed: int
    repeats: int
    order: list[str] = []  # the runs' folders, in the order in which they are made
    scenario: dict[str, Any] = {}
    sides: dict[str, dict[str, Any]] = {}
    ended: list[Ended] = []


class State:
    """An A/B's folder that knows what is done."""

    def __init__(self, path: Path, saved: Saved) -> None:
        self.path = path
        self.saved = saved

    @classmethod
    def begin(cls, path: Path, asked: Saved) -> "State":
        """A new folder, or the same A/B's, to go on with. Raises UsageError for any other."""
        if not folder.holds(path, KIND):
            state = cls(path, asked)
            state.saved.order = [work.folder for work in state.order]
            folder.create(path, KIND, state.saved)
            return state
        state = cls(path, folder.load(path, KIND, Saved))
        if changed := _changed(state.saved, asked):
            raise UsageError(
                f"--out {path}: holds another A/B: {', '.join(changed)}",
                "name a new folder, or repeat the command that made this one",
            )
        state.saved.repeats = max(state.saved.repeats, asked.repeats)
        state.saved.order = [work.folder for work in state.order]
        state.save()
        return state

    @property
    def order(self) -> list[Work]:
        return order(self.saved.repeats, self.saved.order_seed)

    def save(self) -> None:
        folder.save(self.path, KIND, self.saved)

    def folder(self, work: Work) -> Path:
        return self.path / work.folder

    def done(self) -> list[Work]:
        """Runs that count, in their order."""
        fine = {one.work for one in self.saved.ended if one.status == "done"}
        return [
            work
            for work in self.order
            if work in fine and (self.folder(work) / "summary.json").is_file()
        ]

    def free_folder(self, work: Work) -> Path:
        """The run's folder, free to be made: what an earlier try left there is moved aside."""
        path = self.folder(work)
        folder.make_way(path, self.path / "aside" / f"{work.label}-{work.repeat:02d}")
        return path

    def finish(self, ended: Ended) -> None:
        """Writes down how a run ended, in the place of an earlier try of it."""
        others = [one for one in self.saved.ended if one.work != ended.work]
        self.saved.ended = [*others, ended]
        self.save()


def _changed(saved: Saved, asked: Saved) -> list[str]:
    """What is asked for and was not when the folder was made; words."""
    found = []
    if saved.order_seed != asked.order_seed:
        found.append(f"order seed {saved.order_seed}, now {asked.order_seed}")
    old, new = saved.scenario, asked.scenario
    keys = [key for key in dict.fromkeys((*old, *new)) if old.get(key) != new.get(key)]
    if keys:
        found.append(f"of the load: {', '.join(keys)}")
    for label in asked.sides:
        if saved.sides.get(label) != asked.sides[label]:
            found.append(f"the server {label}")
    return found
