"""The folder of a capacity search: `capacity.json` and one run folder a run.

OUT/
  capacity.json           what was asked, and each run's rate, reason and folder
  r001-2.5qps/ ...        run folders like any other
  server/                 log and spans of the server that stayed up
  summary.json, report.html, report.md
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from mmload import __version__
from mmload.errors import UsageError
from mmload.rundir import RunDir

FILE: Final = "capacity.json"
FORMAT: Final = 1


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


def create(path: Path, asked: Asked) -> None:
    """Makes the folder. Raises UsageError when it is not empty or cannot be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UsageError(
                f"--out {path}: the folder is not empty", "name a new folder, or remove that one"
            )
        save(path, asked)
    except OSError as error:
        raise UsageError(
            f"--out {path}: cannot be written: {error.strerror}",
            "name a folder that you may write to",
        ) from error


def save(path: Path, asked: Asked) -> None:
    RunDir(path).write_json(FILE, asked)


def load(path: Path) -> Asked:
    file = path / FILE
    try:
        asked = msgspec.json.decode(file.read_bytes(), type=Asked)
    except OSError as error:
        raise UsageError(
            f"{path}: not the folder of a capacity search: {FILE}: {error.strerror}",
            "name a folder that `mmload capacity` made",
        ) from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{file}: damaged: {error}", "restore the file from a copy") from error
    if asked.format > FORMAT:
        raise UsageError(
            f"{file}: format {asked.format}, made by mmload {asked.mmload};"
            f" this mmload {__version__} reads up to {FORMAT}",
            "use that version or a later one",
        )
    return asked
