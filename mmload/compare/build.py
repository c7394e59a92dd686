"""Loaded sides as the object of docs/compare.md, or a refusal to compare what is not alike.

In: `LoadedSide`s and what to compare. Out: the object that every report of a comparison is made of.
Runs of unlike scenarios are refused, with the keys that differ, unless `force` is set; then the
object says so at the top.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from mmload import __version__
from mmload.analysis import alike
from mmload.analysis.comparison import compared, middle
from mmload.analysis.metrics import Metric
from mmload.compare.sides import LoadedSide, identity, is_sound
from mmload.errors import UsageError
from mmload.report import compare_words
from mmload.scenario import NOT_IN_DIGEST

SCHEMA: Final = 1

Section = dict[str, Any]
_SHOWN_BESIDE: Final = ("url", "out", "name")  # told with the sides, or of no matter


def build(
    sides: Sequence[LoadedSide],
    family: Sequence[Metric],
    also: Sequence[Metric] = (),
    *,
    force: bool = False,
    paired: bool = False,
) -> Section:
    """The whole comparison. Raises UsageError for unlike scenarios."""
    unlike = _unlike(sides)
    if _digests_differ(sides) and not force:
        said = compare_words.differences(unlike["scenario"])
        raise UsageError(
            f"unlike scenarios: {said or compare_words.FILES_DIFFER}",
            "make both of one scenario, or add --force: what differs is then part of the report",
        )
    made: Section = {
        "schema": SCHEMA,
        "mmload": __version__,
        "sentence": "",
        "forced": _digests_differ(sides),
        "sides": [_side(side) for side in sides],
        "unlike": unlike,
        **compared([side.side for side in sides], family, also, paired=paired),
        "parity": _parity(sides),
        "thresholds": [],
    }
    made["notes"] = [*_shared(sides), *_notes(made)]
    made["sentence"] = compare_words.sentence(made)
    return made


def _digests_differ(sides: Sequence[LoadedSide]) -> bool:
    return len({run.summary["run"]["digest"] for side in sides for run in side.runs}) > 1


def _unlike(sides: Sequence[LoadedSide]) -> Section:
    """What differs, by kind; lists of `alike.Difference`."""
    scenarios = {s.label: [r.summary["run"]["scenario"] for r in s.runs] for s in sides}
    counted = alike.differences(scenarios, NOT_IN_DIGEST)
    every = alike.differences(scenarios, _SHOWN_BESIDE)
    models = {s.label: [{"model": r.summary["run"]["model"]} for r in s.runs] for s in sides}
    versions = {s.label: [{"mmload": r.summary["mmload"]} for r in s.runs] for s in sides}
    found = [one for one in every if one not in counted and one["key"] != "model"]
    return {
        "scenario": counted,
        "beside": [*found, *alike.differences(models)],
        "settings": alike.differences(
            {s.label: [alike.settings(r.summary) for r in s.runs] for s in sides}
        ),
        "machine": alike.differences(
            {s.label: [alike.machine(r.summary) for r in s.runs] for s in sides}
        ),
        "versions": alike.differences(versions),
    }


def _side(side: LoadedSide) -> Section:
    first = side.runs[middle(side.side)].summary
    return {
        "label": side.label,
        "path": side.path,
        "runs": [
            {
                "folder": str(run.folder),
                "started_at": run.summary["run"]["started_at"],
                "valid": is_sound(run.summary),
                "ok": run.summary["ok"],
            }
            for run in side.runs
        ],
        "left_out": [
            {"folder": str(one.folder), "reason": one.reason, "fix": one.fix}
            for one in side.left_out
        ],
        "target": first["run"]["target"],
        "model": first["run"]["model"],
        "simulated": first["run"]["simulated"],
        "load_mode": first["run"]["load_mode"],
        "digest": first["run"]["digest"],
        "asked_qps": first["asked_qps"],
        "classes": list(first["classes"]),
        "machine": first["run"]["machine"],
    }


def _parity(sides: Sequence[LoadedSide]) -> Section | None:
    """parity.json of each side's first run that has one."""
    found = {
        side.label: next(run.parity for run in side.runs if run.parity is not None)
        for side in sides
        if any(run.parity is not None for run in side.runs)
    }
    return found or None


def _shared(sides: Sequence[LoadedSide]) -> list[str]:
    """A sentence if a run is on several sides, as overlapping globs have it."""
    of_sides = [{identity(run.summary): run.folder for run in side.runs} for side in sides]
    held = Counter(one for of_side in of_sides for one in of_side)
    shared = {one: of_side[one] for of_side in of_sides for one in of_side if held[one] > 1}
    if not shared:
        return []
    first = next(iter(shared.values()))
    more = f", and so are {len(shared) - 1} more" if len(shared) > 1 else ""
    return [f"{first} is on several sides{more}: the sides are not independent, and no p holds."]


def _notes(made: Section) -> list[str]:
    """What a reader must know before believing the numbers; sentences."""
    notes = []
    unlike = made["unlike"]
    if invalid := compare_words.invalid(made):
        notes.append(f"{invalid} Their numbers may be those of a busy machine.")
    if made["forced"]:
        said = compare_words.differences(unlike["scenario"]) or compare_words.FILES_DIFFER
        notes.append(f"The scenarios are not alike: {said}. The numbers answer to different loads.")
    if unlike["machine"]:
        said = compare_words.differences(unlike["machine"])
        notes.append(f"The machines differ: {said}. The change holds their difference too.")
    if unlike["versions"]:
        notes.append(f"Versions differ: {compare_words.differences(unlike['versions'])}.")
    if not made["paired"] and _one_after_the_other(made["sides"]):
        notes.append(
            "All runs of one side came before all of another: a machine that drifts would look the"
            " same. Runs in turn (`mmload ab`) rule that out."
        )
    growing = [s for s, queue in made["queue"].items() if "growing" in queue["verdicts"]]
    if growing:
        notes.append(
            f"The queue grows in {' and '.join(growing)}: latencies there rise for as long as the"
            " load lasts, so that they belong to runs of this length."
        )
    if made["weak_p99"]:
        notes.append(
            f"p99 rests on as few as {made['fewest_samples']} requests a run; below 368 it is close"
            " to the slowest request."
        )
    return notes


def _one_after_the_other(sides: list[Section]) -> bool:
    """Whether some side with repeats lies wholly before or after the base."""
    base, *others = [sorted(run["started_at"] for run in side["runs"]) for side in sides]
    return any(
        len(base) > 1 and len(other) > 1 and (base[-1] < other[0] or other[-1] < base[0])
        for other in others
    )
