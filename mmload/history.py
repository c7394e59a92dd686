"""The runs on a disk as an index: a row a run, with tags and notes; and where those are kept.

In: folders. Out: one `Row` for everything that looks like a run, oldest first; what cannot be read
is a row with the reason and the fix, never an error. Only manifest.json, summary.json and
labels.json are read, so that a thousand runs are listed in seconds. Writes labels.json alone.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from mmload.analysis.metrics import metric
from mmload.analysis.summary import SCHEMA
from mmload.errors import MmloadError, UsageError
from mmload.rundir import RunDir, is_run

DEFAULT_FOLDERS: Final = ("runs", "reports")
LABELS: Final = "labels.json"
_DEPTH: Final = 5  # folders of sweeps hold folders of points, which hold runs
_TAG: Final = re.compile(r"[\w.:+-]{1,40}")


class Labels(msgspec.Struct, omit_defaults=True):
    """labels.json: what a person says of a run."""

    tags: list[str] = []
    note: str = ""


class Row(msgspec.Struct, kw_only=True):
    """A run in the index. `problem` and `fix` are empty for a run that could be read."""

    folder: str
    started_at: str = ""
    name: str = ""
    digest: str = ""
    target: str = ""
    model: str = ""
    qps: float | None = None
    load_mode: str = "open"
    classes: list[str] = []
    verdict: str = ""  # VALID, INVALID or INTERRUPTED
    ttft_p50_ms: float | None = None
    ttft_p90_ms: float | None = None
    ttft_p99_ms: float | None = None
    queue: str = ""  # stable, growing, cant_tell
    growth_per_s: float | None = None
    mmload: str = ""
    tags: list[str] = []
    note: str = ""
    problem: str = ""
    fix: str = ""


def index(
    folders: Sequence[Path], *, tags: Iterable[str] = (), scenario: str | None = None
) -> list[Row]:
    """The runs in the folders, at any depth in reason. Filters: all of `tags`, and the scenario's
    name or the start of its digest. Raises UsageError for a folder that is not there."""
    found: dict[Path, Row] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder", "name a folder that holds runs")
        for run in _runs(folder, _DEPTH):
            found.setdefault(run.resolve(), _row(run))
    wanted = set(tags)
    rows = [
        row
        for row in found.values()
        if wanted <= set(row.tags)
        and (scenario is None or row.name == scenario or _starts(row.digest, scenario))
    ]
    return sorted(rows, key=lambda row: (row.started_at, row.folder))


def _starts(digest: str, start: str) -> bool:
    return len(start) >= 4 and digest.startswith(start)


def _runs(folder: Path, depth: int) -> Iterator[Path]:
    if is_run(folder):
        yield folder
    elif depth:
        try:
            inner = sorted(one for one in folder.iterdir() if one.is_dir())
        except OSError:
            return  # not ours to read
        for one in inner:
            yield from _runs(one, depth - 1)


def _row(folder: Path) -> Row:
    row = Row(folder=str(folder))
    try:
        labels = read_labels(folder)
        row.tags, row.note = labels.tags, labels.note
        manifest = RunDir(folder).manifest()
        row.started_at, row.name, row.digest = manifest.started_at, manifest.name, manifest.digest
        row.target, row.model, row.mmload = manifest.target, manifest.model, manifest.mmload
        row.qps, row.load_mode = manifest.asked_qps, manifest.load_mode
        row.classes = list(manifest.media.get("classes") or {})
        _add_results(row, _summary(folder))
    except MmloadError as error:
        row.problem = error.message.removeprefix(f"{folder}: ").removeprefix(f"{folder}/")
        row.fix = error.hint
    return row


def _summary(folder: Path) -> dict[str, Any]:
    file, fix = folder / "summary.json", f"make it again: mmload report {folder}"
    try:
        summary = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        killed = "" if (folder / "end.json").exists() else "; the run was killed"
        raise UsageError(f"there is no summary.json{killed}", fix) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"summary.json is damaged: {error}", fix) from None
    schema = summary.get("schema") if isinstance(summary, dict) else None
    if schema != SCHEMA:
        raise UsageError(f"summary.json has schema {schema}, this mmload reads {SCHEMA}", fix)
    found: dict[str, Any] = summary
    return found


def _add_results(row: Row, summary: dict[str, Any]) -> None:
    row.classes = list(summary.get("classes") or {}) or row.classes
    row.verdict = "VALID" if summary.get("valid") else "INVALID"
    if summary.get("interrupted"):
        row.verdict = "INTERRUPTED"
    row.ttft_p50_ms = metric("ttft:p50").value(summary)
    row.ttft_p90_ms = metric("ttft:p90").value(summary)
    row.ttft_p99_ms = metric("ttft:p99").value(summary)
    row.queue = str((summary.get("queue") or {}).get("verdict") or "")
    row.growth_per_s = metric("growth").value(summary)


# -- labels ------------------------------------------------------------------------------------


def read_labels(folder: Path) -> Labels:
    """Empty where nobody has said anything. Raises UsageError for a damaged file."""
    file = folder / LABELS
    try:
        return msgspec.json.decode(file.read_bytes(), type=Labels)
    except FileNotFoundError:
        return Labels()
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{file}: damaged: {error}", "mend or remove the file") from None


def label(
    folder: Path, *, add: Sequence[str] = (), remove: Sequence[str] = (), note: str | None = None
) -> Labels:
    """Changes a run's labels and writes them, if anything changed. An empty note removes it."""
    RunDir(folder).manifest()  # says when this is no run folder
    for tag in (*add, *remove):
        if not _TAG.fullmatch(tag):
            raise UsageError(
                f"{tag!r}: is no tag", "up to 40 letters, digits and . : + - _, without blanks"
            )
    before = read_labels(folder)
    tags = [tag for tag in dict.fromkeys([*before.tags, *add]) if tag not in remove]
    said = before.note if note is None else " ".join(note.split())
    labels = Labels(tags, said)
    if labels != before:
        try:
            RunDir(folder).write_json(LABELS, labels)
        except OSError as error:
            raise UsageError(
                f"{folder / LABELS}: cannot be written: {error.strerror}",
                "the run's folder must be yours to write to",
            ) from None
    return labels
