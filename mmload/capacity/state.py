"""The folder of a capacity search: `capacity.json` and one run folder a run.

OUT/
  capacity.json           what was asked, and each run's rate, reason and folder
  r001-2.5qps/ ...        run folders like any other
  server/                 log and spans of the server that stayed up
  earlier/                what was interrupted, and servers of before
  summary.json, report.html, report.md

The same command goes on where it was.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from mmload import __version__
from mmload.batch import folder
from mmload.capacity.search import PILOT
from mmload.errors import UsageError

FORMAT: Final = 1
KIND: Final = folder.Kind("a capacity search", "mmload capacity", "capacity.json", FORMAT)
EARLIER: Final = "earlier"
_SAME: Final = (  # of what is asked, for runs to belong to one search
    *(
        "server",
        "launched",
        "slos",
        "scenario",
        "precision",
        "factor",
        "repeats",
        "requests_a_rate",
        "least_s",
    ),
)


class Ran(msgspec.Struct, kw_only=True):
    """One run of the search; its verdict follows from its folder and the objectives."""

    rate: float
    why: str
    folder: str


class Asked(msgspec.Struct, kw_only=True):
    """What capacity.json holds."""

    format: int = FORMAT
    mmload: str = __version__
    started_at: str
    machine: dict[str, Any] = {}
    server: str
    launched: dict[str, Any] = {}  # what the server was given, without secrets
    slos: list[str]
    scenario: dict[str, Any]  # without qps, duration and requests
    start: float
    precision: float
    factor: float
    repeats: int
    requests_a_rate: int
    least_s: float
    at_least: float | None = None
    ran: list[Ran] = []
    ended: str = ""  # why the search ended


def begin(path: Path, asked: Asked) -> Asked:
    """What is done of this search in a folder, which may be new. Raises UsageError for a folder
    that holds another search or anything else, or cannot be written."""
    if not folder.holds(path, KIND):
        folder.create(path, KIND, asked)
        return asked
    saved = load(path)
    changed = [name for name in _SAME if getattr(saved, name) != getattr(asked, name)]
    if asked.start not in (PILOT, saved.start):
        changed.append("start")
    if changed:
        raise UsageError(
            f"--out {path}: holds another capacity search: {', '.join(changed)} differ",
            "name a new folder, or repeat the command that made this one",
        )
    saved.at_least, saved.ended = asked.at_least, ""
    return saved


def save(path: Path, asked: Asked) -> None:
    folder.save(path, KIND, asked)


def load(path: Path) -> Asked:
    return folder.load(path, KIND, Asked)


def free_folder(path: Path, name: str) -> Path:
    """A folder of the search, free to be made: what is left of an interrupted one goes aside."""
    made = path / name
    folder.make_way(made, path / EARLIER / name)
    return made
