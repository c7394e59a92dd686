"""`mmload report`: a finished run again, as words, JSON, CSV."""

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mmload.errors import UsageError
from mmload.report.exports import records_csv
from mmload.report.files import analyse, write_report
from mmload.report.markdown import render_markdown
from mmload.report.terminal import render
from mmload.rundir import RunDir


def report(
    run: Annotated[Path, Parameter(help="Run folder.")],
    /,
    *,
    as_json: Annotated[
        bool, Parameter(name="--json", help="Print the summary as JSON.", negative=())
    ] = False,
    markdown: Annotated[
        bool, Parameter(help="Print a block for a pull request.", negative=())
    ] = False,
    csv: Annotated[
        Path | None,
        Parameter(
            help="Write the records to this file, '-' for standard output.",
            allow_leading_hyphen=True,
        ),
    ] = None,
) -> int:
    """Make summary.json and report.html of a run again, and print the report."""
    folder = RunDir(run)
    if csv is not None:
        folder.manifest()
        if str(csv) == "-":
            records_csv(folder.records(), sys.stdout)
            return 0
        try:
            with csv.open("w", encoding="utf-8", newline="") as file:
                records_csv(folder.records(), file)
        except OSError as error:
            raise UsageError(
                f"--csv {csv}: cannot be written: {error.strerror}", "name another file"
            ) from None
        return 0
    try:
        analysis = write_report(folder)
    except OSError as error:  # a run on a read-only disk can still be read
        print(f"mmload: {run}: not written: {error.strerror}", file=sys.stderr)
        analysis = analyse(folder)
    if as_json:
        print(json.dumps(analysis.summary, allow_nan=False, indent=1))
    elif markdown:
        print(render_markdown(analysis.summary))
    else:
        render(analysis.summary, color=sys.stdout.isatty(), folder=str(run))
    return 0
