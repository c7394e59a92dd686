"""Sides of a comparison from the disk: run folders, folders of repeated runs, globs.

In: what was typed, `PATH` or `name=PATH`. Out: `LoadedSide`s, and of every run that is left out
the reason and the fix. One bad run never stops the others; a side without any good run does.
summary.json is read where this version wrote it; else the run is analysed again, in memory.
"""

import glob
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from mmload import __version__
from mmload.analysis.comparison import Side
from mmload.analysis.summary import SCHEMA
from mmload.errors import InvalidRun, UsageError
from mmload.report.files import analyse
from mmload.rundir import RunDir, is_run

Summary = dict[str, Any]
_NAME: Final = re.compile(r"[^=/\x00-\x1f]{1,40}")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run that takes no part: which, why, and the fix. `judged`: it could be read."""

    folder: Path
    reason: str
    fix: str
    judged: bool = False


@dataclass(frozen=True, slots=True)
class LoadedRun:
    folder: Path
    summary: Summary
    parity: Summary | None = None  # parity.json, where there is one


@dataclass(slots=True)
class LoadedSide:
    label: str
    path: str
    runs: list[LoadedRun] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def side(self) -> Side:
        return Side(self.label, tuple(run.summary for run in self.runs))


def load_sides(
    asked: Sequence[str], *, allow_invalid: bool = False, paired: bool = False
) -> list[LoadedSide]:
    """Loads the sides in order. Raises UsageError or InvalidRun for a side without a good run."""
    named = _labelled(asked)
    folders = [run_folders(path, label) for label, path in named]
    if paired and len({len(of_side) for of_side in folders}) > 1:
        counts = ", ".join(
            f"{label} {len(f)}" for (label, _), f in zip(named, folders, strict=True)
        )
        raise UsageError(
            f"--paired: the sides have unlike numbers of runs: {counts}",
            "leave out --paired, or give each side the run that belongs to each of the others'",
        )
    loaded = [
        _without_copies([load_run(f, allow_invalid=allow_invalid) for f in of_side])
        for of_side in folders
    ]
    if paired:
        loaded = _whole_pairs(loaded)
    sides = []
    for (label, path), of_side in zip(named, loaded, strict=True):
        side = LoadedSide(label, path)
        for one in of_side:
            if isinstance(one, LoadedRun):
                side.runs.append(one)
            else:
                side.left_out.append(one)
        if not side.runs:
            raise _nothing_left(side)
        sides.append(side)
    return sides


def _without_copies(of_side: list[LoadedRun | LeftOut]) -> list[LoadedRun | LeftOut]:
    """Leaves out all but the first of the same run, which would count as a repeat."""
    seen: dict[str, Path] = {}
    kept: list[LoadedRun | LeftOut] = []
    for one in of_side:
        first = one.folder
        if isinstance(one, LoadedRun):
            first = seen.setdefault(identity(one.summary), one.folder)
        reason = f"a copy of {first}: a run counts once"
        fine = first == one.folder
        kept.append(one if fine else LeftOut(one.folder, reason, "make another run", True))
    return kept


def identity(summary: Summary) -> str:
    """The same for copies of a run and for nothing else: latencies are measured to the ns."""
    return json.dumps([summary["run"]["started_at"], summary.get("e2e_ms"), summary.get("lag_ms")])


def _whole_pairs(loaded: list[list[LoadedRun | LeftOut]]) -> list[list[LoadedRun | LeftOut]]:
    """Of paired sides a run whose partner is left out is left out too."""
    whole = [all(isinstance(one, LoadedRun) for one in row) for row in zip(*loaded, strict=True)]
    return [
        [
            one
            if isinstance(one, LeftOut) or fine
            else LeftOut(
                one.folder, "the run that it is paired with is left out", "mend that one", True
            )
            for one, fine in zip(of_side, whole, strict=True)
        ]
        for of_side in loaded
    ]


def _nothing_left(side: LoadedSide) -> UsageError | InvalidRun:
    first = side.left_out[0]
    more = f" (and {len(side.left_out) - 1} more)" if len(side.left_out) > 1 else ""
    message = f"{side.label}: no run to compare: {first.folder}: {first.reason}{more}"
    if any(one.judged for one in side.left_out):
        return InvalidRun(message, f"{first.fix}, or compare it all the same by --allow-invalid")
    return UsageError(message, first.fix)


# -- names and folders -------------------------------------------------------------------------


def _labelled(asked: Sequence[str]) -> list[tuple[str, str]]:
    """(label, path) of each; a label that was not given is the folder's name, as far up as it
    takes to tell the sides apart."""
    named = [_name_and_path(text) for text in asked]
    depth = 1
    while True:
        labels = [name or _folder_name(path, depth) for name, path in named]
        if len(set(labels)) == len(labels):
            return list(zip(labels, (path for _, path in named), strict=True))
        if depth > max(len(Path(path).absolute().parts) for _, path in named):
            twice = next(label for label in labels if labels.count(label) > 1)
            raise UsageError(f"{twice}: is named twice", "give each side a name: before=PATH")
        depth += 1


def _folder_name(path: str, depth: int) -> str:
    """The last parts of a folder's path; a glob is its own name."""
    return str(Path(*Path(path).absolute().parts[-depth:])) if Path(path).exists() else path


def _name_and_path(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or Path(text).exists():
        return "", text
    if not _NAME.fullmatch(name) or not path:
        raise UsageError(f"{text!r}: is no side", "write PATH or name=PATH")
    return name, path


def run_folders(path: str, label: str = "") -> list[Path]:
    """The run folders that a path stands for, by name. Raises UsageError when there are none."""
    where = f"{label}={path}" if label not in ("", path, Path(path).name) else path
    places = (
        [Path(path)] if Path(path).exists() else sorted(map(Path, glob.glob(path)), key=_by_number)
    )
    if not places:
        raise UsageError(f"{where}: no such folder", "name a run folder or a folder of runs")
    found = []
    for place in places:
        if is_run(place):
            found.append(place)
        elif place.is_dir():
            found.extend(sorted(filter(is_run, place.iterdir()), key=_by_number))
    if not found:
        raise UsageError(
            f"{where}: neither a run folder nor a folder with runs in it",
            "name a folder that `mmload run` made, or the folder that holds several",
        )
    return list(dict.fromkeys(found))


def _by_number(folder: Path) -> list[tuple[int, str]]:
    """Sorts run 10 after run 9, since pairs go by place."""
    parts = re.split(r"(\d+)", str(folder))
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


# -- one run -----------------------------------------------------------------------------------


def load_run(folder: Path, *, allow_invalid: bool = False) -> LoadedRun | LeftOut:
    """The run's summary, or why it takes no part."""
    try:
        summary = read_summary(RunDir(folder))
    except UsageError as error:
        reason = error.message.removeprefix(f"{folder}: ").removeprefix(f"{folder}/")
        return LeftOut(folder, reason, error.hint)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        return LeftOut(folder, f"damaged: {error}", "restore it from a copy, or run it again")
    if not allow_invalid:
        if summary["interrupted"]:
            return LeftOut(folder, "it was interrupted or killed", "run it again", True)
        if not summary["valid"]:
            first = next(iter(summary["invalid_reasons"]), "no reason was recorded")
            return LeftOut(folder, f"INVALID: {first}", "run it again", True)
        if was_slowed(summary):
            reason = "the profile stopped its server for each sample, so it was slower"
            return LeftOut(folder, reason, "run it again without --profile-native", True)
    return LoadedRun(folder, summary, _parity(folder))


def was_slowed(summary: Summary) -> bool:
    """By a profile of native functions, for which py-spy stops the server."""
    return bool((summary.get("profile") or {}).get("native"))


def is_sound(summary: Summary) -> bool:
    """Whether a run takes part without being asked for."""
    return bool(summary["valid"] and not summary["interrupted"] and not was_slowed(summary))


def read_summary(run: RunDir) -> Summary:
    """summary.json if this version wrote it, else the analysis of the run's data. Raises UsageError
    for folders that are no run or of a later format."""
    manifest = run.manifest()
    try:
        summary = json.loads((run.path / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        summary = None
    if (
        isinstance(summary, dict)
        and summary.get("schema") == SCHEMA
        and summary.get("mmload") == manifest.mmload == __version__
    ):
        return summary
    return analyse(run).summary


def _parity(folder: Path) -> Summary | None:
    try:
        found = json.loads((folder / "parity.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
