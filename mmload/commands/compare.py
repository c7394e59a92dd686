"""`mmload compare`: before and after, with the test that a maintainer asks for."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mmload.analysis.comparison import stages_of
from mmload.analysis.metrics import HEADLINE, Metric, metric
from mmload.compare.build import build
from mmload.compare.files import folder_for, write_files
from mmload.compare.sides import load_sides
from mmload.compare.thresholds import Threshold, judge, parse
from mmload.errors import ThresholdFailed, UsageError
from mmload.report import compare_tables
from mmload.report.compare_markdown import render_markdown
from mmload.report.compare_terminal import render_text
from mmload.report.console import width_of, write


def _switch(help_text: str, name: str | None = None) -> Parameter:
    return Parameter(name=name, help=help_text, negative=(), show_default=False)


def _repeated(name: str, help_text: str) -> Parameter:
    return Parameter(name=name, help=f"{help_text} May be repeated.", negative=())


def compare(
    *sides: Annotated[
        str,
        Parameter(help="Run folders, folders of repeated runs, or globs; name=PATH names a side."),
    ],
    metrics: Annotated[
        list[str] | None,
        _repeated(
            "--metric", "Test this metric instead of the headline five; fewer need fewer runs."
        ),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        _repeated(
            "--fail-if", "Exit 4 when so: 'ttft:p99 > +5%', 'e2e:p90 > 500ms', 'failed > 0'."
        ),
    ] = None,
    significant: Annotated[
        bool, _switch("A change fails only when the test shows it, too.")
    ] = False,
    paired: Annotated[
        bool, _switch("The sides' first runs belong together, their second ones, and so on.")
    ] = False,
    force: Annotated[bool, _switch("Compare unlike scenarios, and say what differs.")] = False,
    allow_invalid: Annotated[
        bool, _switch("Take INVALID, interrupted and slowed runs, too.")
    ] = False,
    markdown: Annotated[bool, _switch("Print a block for a pull request.")] = False,
    as_json: Annotated[bool, _switch("Print the comparison as JSON.", "--json")] = False,
    out: Annotated[
        Path | None, Parameter(help="Write compare.html, .md and .json into this folder.")
    ] = None,
) -> int:
    """Compare runs of one scenario; the first side is the base.

    Each side is one run, or the repeated runs of one server. The run is the unit: 5 runs a side can
    show a difference in the headline five, 4 runs in one metric that you name.
    """
    if len(sides) < 2:
        raise UsageError(
            f"compare: {len(sides)} side{'' if len(sides) == 1 else 's'} to compare",
            "name two or more: mmload compare BEFORE AFTER",
        )
    folder = folder_for(out) if out is not None else None
    loaded = load_sides(sides, allow_invalid=allow_invalid, paired=paired)
    stages = stages_of([side.side for side in loaded])
    thresholds = [parse(text, stages) for text in fail_if or ()]
    if significant and not any(one.is_change for one in thresholds):
        raise UsageError(
            "--significant: there is no change to test", "add one: --fail-if 'ttft:p99 > +5%'"
        )
    family = _family(metrics, thresholds if significant else [], stages)
    also = [one.metric for one in thresholds]
    made = build(loaded, family, also, force=force, paired=paired)
    if significant:
        _can_be_shown(thresholds, made)
    made["thresholds"] = judge(thresholds, made, significant=significant)
    if folder is not None:
        write_files(folder, made, loaded)
    if as_json:
        print(json.dumps(made, allow_nan=False, indent=1))
    elif markdown:
        print(render_markdown(made), end="")
    else:
        color = sys.stdout.isatty()
        shown = str(out) if out is not None else ""
        write(render_text(made, width_of(sys.stdout), color=color, folder=shown), sys.stdout)
    failed = [one for one in made["thresholds"] if one["failed"]]
    if failed:
        said = "; ".join(compare_tables.threshold(made, one) for one in failed)
        sys.stdout.flush()
        raise ThresholdFailed(f"threshold failed: {said}")
    return 0


def _family(
    named: list[str] | None, thresholds: Sequence[Threshold], stages: Sequence[str]
) -> list[Metric]:
    """What is tested together: what was named, else what the thresholds ask for, else the headline.

    Declared before the numbers are seen, as the test demands.
    """
    asked = [one.metric for one in thresholds if one.is_change]
    if named is None:
        return list(dict.fromkeys(asked)) or [metric(name) for name in HEADLINE]
    try:
        family = [metric(name, stages) for name in named]
    except ValueError as error:
        raise UsageError(f"--metric: {error}", "") from None
    missing = [one.name for one in asked if one not in family]
    if missing:
        raise UsageError(
            f"--significant: {missing[0]} is not among the metrics of --metric",
            f"add --metric {missing[0]}, or leave --metric out",
        )
    return list(dict.fromkeys(family))


def _can_be_shown(thresholds: Sequence[Threshold], made: dict[str, Any]) -> None:
    """A gate that could never fail is an error, not a pass."""
    rows = {row["name"]: row for row in made["metrics"]}
    for one in thresholds:
        changes = rows[one.metric.name]["changes"] if one.metric.name in rows else []
        whys = [found["why"] for found in changes if one.is_change]
        why = next((w for w in whys if w.startswith("needs")), "")  # without a value: it fails
        if why:
            counts = " and ".join(str(len(side["runs"])) for side in made["sides"])
            raise UsageError(
                f"--significant: {one.text}: the test {why}; there are {counts}",
                "make more runs, or leave --significant out",
            )
