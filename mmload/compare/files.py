"""The files of a comparison: compare.json, compare.md and compare.html in one folder.

In: the object of docs/compare.md and the sides it was made of, whose records are read again for the
curves. Out: the files. A run without records has no curve, and the others go on.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mmload.compare.sides import LoadedSide
from mmload.errors import MmloadError, UsageError
from mmload.report.compare_html import render_html
from mmload.report.compare_markdown import render_markdown
from mmload.report.files import analyse
from mmload.rundir import RunDir

Section = dict[str, Any]


def folder_for(out: Path) -> RunDir:
    """Makes the folder, before any work is done for it. Raises UsageError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--out {out}: cannot be written: {error.strerror}",
            "name a folder that you may write to",
        ) from None
    return RunDir(out)


def write_files(folder: RunDir, made: Section, sides: Sequence[LoadedSide]) -> None:
    """Writes all three. Raises UsageError when the disk does not take them."""
    series = {
        side.label: [
            _series(run.folder, whole=place == made["split"][side.label]["run"])
            for place, run in enumerate(side.runs)
        ]
        for side in sides
    }
    try:
        folder.write_json("compare.json", made)
        folder.write_text("compare.md", render_markdown(made))
        folder.write_text("compare.html", render_html(made, series))
    except OSError as error:
        raise UsageError(
            f"--out {folder.path}: cannot be written: {error.strerror}", "free space on that disk"
        ) from None


def _series(folder: Path, *, whole: bool) -> Section | None:
    """What the charts draw of a run; `whole`: with a point a request."""
    try:
        found = analyse(RunDir(folder)).series
    except (MmloadError, OSError, ValueError, msgspec.MsgspecError):
        return None
    wanted = ("ttft", "e2e")
    return {
        "queue": {key: found["queue"][key] for key in ("time_s", "backlog")},
        "curve": {key: found["curve"][key] for key in wanted if key in found["curve"]},
        "latency": found["latency"] if whole else None,
    }
