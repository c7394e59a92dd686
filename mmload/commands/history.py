"""`mmload list` and `mmload tag`: which runs there are, and what people say of them."""

import json
import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from mmload.errors import UsageError
from mmload.history import DEFAULT_FOLDERS, index, label
from mmload.report.console import width_of, write
from mmload.report.index import render_index


def list_runs(
    *folders: Annotated[
        Path, Parameter(help="Folders that hold runs, at any depth (runs and reports).")
    ],
    tags: Annotated[
        list[str] | None,
        Parameter(name="--tag", help="Only runs with this tag. May be repeated.", negative=()),
    ] = None,
    scenario: Annotated[
        str | None, Parameter(help="Only runs of the scenario of this name or digest.")
    ] = None,
    as_json: Annotated[
        bool,
        Parameter(name="--json", help="Print the rows as JSON.", negative=(), show_default=False),
    ] = False,
) -> None:
    """List the runs on this disk, oldest first."""
    usual = [Path(name) for name in DEFAULT_FOLDERS if Path(name).is_dir()]
    if not folders and not usual:
        raise UsageError(
            f"list: there is neither of {' and '.join(DEFAULT_FOLDERS)} here",
            "name a folder that holds runs; `mmload run` makes runs/",
        )
    found = index(folders or usual, tags=tags or (), scenario=scenario)
    rows = [msgspec.to_builtins(row) for row in found]
    if as_json:
        print(json.dumps(rows, allow_nan=False, indent=1))
    elif rows:
        color = sys.stdout.isatty()
        write(render_index(rows, width_of(sys.stdout), color=color), sys.stdout)
    else:
        print("mmload: no such runs", file=sys.stderr)


def tag(
    run: Annotated[Path, Parameter(help="Run folder.")],
    /,
    *tags: Annotated[str, Parameter(help="Tags to add.")],
    remove: Annotated[
        list[str] | None, Parameter(help="Take this tag away. May be repeated.", negative=())
    ] = None,
    note: Annotated[
        str | None, Parameter(help="A note on the run, in place of the one before ('': none).")
    ] = None,
) -> None:
    """Give a run tags and a note (labels.json in its folder); without any, print them."""
    labels = label(run, add=tags, remove=remove or (), note=note)
    print(f"{run}: {', '.join(labels.tags) or 'no tags'}")
    if labels.note:
        print(labels.note)
