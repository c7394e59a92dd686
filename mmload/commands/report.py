"""`mmload report`: a finished run again, as words, JSON, Markdown, or files for other tools."""

import json
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

from cyclopts import Parameter

from mmload.errors import UsageError
from mmload.profiler import files as profiles
from mmload.profiler.session import speedscope as speedscope_of
from mmload.report import exports
from mmload.report.files import analyse, write_files
from mmload.report.markdown import render_markdown
from mmload.report.perfetto import write as write_perfetto
from mmload.report.terminal import render
from mmload.rundir import RunDir

Measure = Literal["lag", "ttft", "ttft_from_sent", "ttfo", "tpot", "e2e", "e2e_from_sent"]
STANDARD_OUTPUT = "-"


def _file(help_text: str) -> Parameter:
    return Parameter(
        help=f"{help_text} to this file, '-' for standard output.",
        group="Exports (instead of the report)",
        allow_leading_hyphen=True,
    )


def report(
    run: Annotated[Path, Parameter(help="Folder of a run, a sweep or a capacity search.")],
    /,
    *,
    as_json: Annotated[
        bool, Parameter(name="--json", help="Print the summary as JSON.", negative=())
    ] = False,
    markdown: Annotated[
        bool, Parameter(help="Print a block for a pull request.", negative=())
    ] = False,
    csv: Annotated[Path | None, _file("Write the records as CSV")] = None,
    sequential_csv: Annotated[
        Path | None, _file("Write the table of a sequential run as CSV")
    ] = None,
    hgrm: Annotated[Path | None, _file("Write the percentiles of --measure (.hgrm)")] = None,
    hlog: Annotated[
        Path | None, _file("Write an HdrHistogram log of all measures by second (.hlog)")
    ] = None,
    perfetto: Annotated[
        Path | None, _file("Write client and server on one time line (Perfetto, Chrome trace)")
    ] = None,
    speedscope: Annotated[Path | None, _file("Write the profile for speedscope.app")] = None,
    measure: Annotated[Measure, Parameter(help="Latency that --hgrm writes.")] = "ttft",
) -> int:
    """Make summary.json and report.html of a run again, and print the report."""
    for command in ("sweep", "capacity"):
        if (run / f"{command}.json").is_file():
            return _of_many(command, run, as_json=as_json, markdown=markdown)
    folder = RunDir(run)
    wanted: list[tuple[str, Path | None, Callable[[TextIO], object]]] = [
        ("--csv", csv, lambda out: exports.records_csv(folder.records(), out)),
        ("--sequential-csv", sequential_csv, lambda out: exports.sequential_csv(table, out)),
        ("--hgrm", hgrm, lambda out: out.write(exports.hgrm(folder.records(), measure))),
        ("--hlog", hlog, lambda out: out.write(exports.hlog(folder.records(), _start_s(folder)))),
        ("--perfetto", perfetto, lambda out: _perfetto(folder, out)),
        ("--speedscope", speedscope, lambda out: json.dump(scope, out, allow_nan=False)),
    ]
    asked = [(flag, path, write) for flag, path, write in wanted if path is not None]
    if asked:
        folder.manifest()  # says when this is no run folder
        table = _sequential(folder) if sequential_csv is not None else {}
        scope = _speedscope(folder) if speedscope is not None else {}
        for flag, path, write in asked:
            _export(flag, path, write)
        return 0
    analysis = analyse(folder)
    try:
        write_files(folder, analysis)
    except OSError as error:  # a run on a read-only disk can still be read
        print(f"mmload: {run}: not written: {error.strerror}", file=sys.stderr)
    if as_json:
        print(json.dumps(analysis.summary, allow_nan=False, indent=1))
    elif markdown:
        print(render_markdown(analysis.summary), end="")
    else:
        render(analysis.summary, color=sys.stdout.isatty(), folder=str(run))
    return 0


def _of_many(command: str, path: Path, *, as_json: bool, markdown: bool) -> int:
    """The report of a folder that holds many runs."""
    if command == "sweep":
        from mmload.commands.sweep import report_again
    else:
        from mmload.commands.capacity import report_again
    return report_again(path, as_json=as_json, markdown=markdown)


def _export(flag: str, path: Path, write: Callable[[TextIO], object]) -> None:
    if str(path) == STANDARD_OUTPUT:
        write(sys.stdout)
        return
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            write(file)
    except OSError as error:
        raise UsageError(
            f"{flag} {path}: cannot be written: {error.strerror}", "name another file"
        ) from None


def _start_s(folder: RunDir) -> float:
    return datetime.fromisoformat(folder.manifest().started_at).timestamp()


def _perfetto(folder: RunDir, out: TextIO) -> int:
    records, spans, samples = folder.records(), folder.spans(), folder.samples()
    return write_perfetto(folder.manifest(), records, spans, samples, out)


def _speedscope(folder: RunDir) -> dict[str, Any]:
    session = profiles.read(folder.path)
    if session is None:
        raise UsageError(
            f"--speedscope: {folder.path} has no profile",
            "make one with `mmload run --profile-server`",
        )
    return speedscope_of(session, folder.path.name)


def _sequential(folder: RunDir) -> dict[str, Any]:
    """The summary of a sequential run."""
    summary = analyse(folder).summary
    if summary["sequential"] is None:
        raise UsageError(
            f"--sequential-csv: {folder.path} is a run with {summary['run']['load_mode']} load",
            "make one with `mmload run --sequential`",
        )
    return summary
